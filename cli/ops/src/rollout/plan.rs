//! Plans which functions a rollout leads from which version to which.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Serialize;

use crate::failure::Misuse;

/// The alias by which everything invokes the functions.
pub const ALIAS: &str = "live";

/// How an alias is described that Terraform leaves alone (`infra/modules/function/main.tf`).
pub const OURS: &str = "The version that is invoked; gridpost rollout leads it";

/// The deployment's functions, those first that read what others write.
pub const FUNCTIONS: [&str; 7] =
    ["dispatch", "dead-letter", "redrive", "expand", "wake", "manage", "ingest"];

/// An alias as Lambda has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alias {
    pub version: String,
    pub others: BTreeMap<String, f64>,
    pub description: String,
    pub revision: String,
}

/// A function as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Function {
    /// Its role in the deployment: `dispatch`.
    pub role: String,
    pub alias: Option<Alias>,
    pub versions: Vec<u64>,
}

/// A function that was chosen, and perhaps the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    role: &'static str,
    version: Option<u64>,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let (name, version) = match given.split_once('=') {
            Some((name, version)) => (name, Some(version)),
            None => (given, None),
        };
        let role = FUNCTIONS.into_iter().find(|role| *role == name).ok_or_else(|| {
            format!("`{name}` is no function of Gridpost: {}", FUNCTIONS.join(", "))
        })?;
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
        let version = match version {
            Some(text) => Some(number(text).ok_or_else(|| {
                format!("`{text}` is no version of a function: it is a number, such as 7")
            })?),
            None => None,
        };
        Ok(Self { role, version })
    }
}

/// A function's way from one version to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shift {
    pub function: String,
    pub from: u64,
    pub to: u64,
}

/// The versions that an alias shall lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub version: u64,
    pub other: Option<(u64, u8)>,
}

impl Shift {
    /// Returns the route when this many percent go to the new version.
    pub fn route(&self, percent: u8) -> Route {
        match percent {
            0 => Route { version: self.from, other: None },
            1..=99 => Route { version: self.from, other: Some((self.to, percent)) },
            _ => Route { version: self.to, other: None },
        }
    }
}

/// The roles that are to be looked at: the chosen ones, else all.
pub fn roles(chosen: &[Choice]) -> Vec<&'static str> {
    let is_chosen = |role: &&str| chosen.is_empty() || chosen.iter().any(|it| it.role == *role);
    FUNCTIONS.into_iter().filter(is_chosen).collect()
}

/// Names the functions that the deployment does not have: an earlier version has fewer, and a
/// rollout leaves those out. Fails with [`Misuse`] if it has none at all, or not one that was
/// chosen.
pub fn left_out(
    prefix: &str,
    missing: &[&str],
    chosen: &[Choice],
) -> Result<Option<String>, Misuse> {
    let named: Vec<_> = missing.iter().map(|role| format!("{prefix}-{role}")).collect();
    let named = named.join(", ");
    if missing.len() == FUNCTIONS.len() {
        return Err(Misuse(format!(
            "there is no function of {prefix}: give the deployment's --name-prefix (GRIDPOST_NAME_PREFIX), \
             and its region by --manage-url or AWS_REGION"
        )));
    }
    match (missing.is_empty(), chosen.is_empty()) {
        (true, _) => Ok(None),
        (false, true) => Ok(Some(format!(
            "! left out, because the deployment does not have them (its version has fewer functions): {named}"
        ))),
        (false, false) => Err(Misuse(format!("the deployment has no function {named}"))),
    }
}

/// The alias of a function, if a rollout may lead it.
pub fn ours<'a>(prefix: &str, function: &'a Function) -> Result<&'a Alias, Misuse> {
    let name = format!("{prefix}-{}", function.role);
    let Some(alias) = &function.alias else {
        return Err(Misuse(format!(
            "{name} has no alias {ALIAS}: set the Terraform variables versions and rollout to true \
             (docs/upgrades.md)"
        )));
    };
    if alias.description != OURS {
        return Err(Misuse(format!(
            "Terraform leads the alias {ALIAS} of {name}, and would lead it back at its next apply: set the \
             Terraform variable rollout to true (docs/upgrades.md)"
        )));
    }
    Ok(alias)
}

/// Returns the shifts to make; functions that are there already are left out. Fails with [`Misuse`]
/// if an alias is not ours to lead, another rollout stands, or a version does not exist.
pub fn shifts(
    prefix: &str,
    functions: &[Function],
    chosen: &[Choice],
) -> Result<Vec<Shift>, Misuse> {
    let mut shifts = Vec::new();
    for function in functions {
        let alias = ours(prefix, function)?;
        let name = format!("{prefix}-{}", function.role);
        if !alias.others.is_empty() {
            let shares = alias.others.iter().map(|(version, share)| {
                format!("version {version} gets {:.0} percent", share * 100.0)
            });
            return Err(Misuse(format!(
                "{name}: a rollout has not ended ({}): if none runs, `gridpost rollout --revert` takes \
                 back what it has shifted",
                shares.collect::<Vec<_>>().join(", ")
            )));
        }
        let Ok(from) = alias.version.parse() else {
            return Err(Misuse(format!(
                "the alias {ALIAS} of {name} leads to {}, which is no version",
                alias.version
            )));
        };
        let asked = chosen.iter().rev().find(|choice| choice.role == function.role);
        let to = match asked.and_then(|choice| choice.version) {
            Some(version) if !function.versions.contains(&version) => {
                return Err(Misuse(format!("{name} has no version {version}")));
            }
            Some(version) => version,
            None => function.versions.iter().copied().max().unwrap_or(from),
        };
        if to != from {
            shifts.push(Shift { function: function.role.clone(), from, to });
        }
    }
    Ok(shifts)
}

/// Returns the functions that two versions share after rollouts that did not end. Fails with
/// [`Misuse`] if an alias is not ours to lead.
pub fn left_behind(prefix: &str, functions: &[Function]) -> Result<Vec<Shift>, Misuse> {
    let mut shifts = Vec::new();
    for function in functions {
        let alias = ours(prefix, function)?;
        let other = alias.others.keys().next().and_then(|version| version.parse().ok());
        if let (Ok(from), Some(to)) = (alias.version.parse(), other) {
            shifts.push(Shift { function: function.role.clone(), from, to });
        }
    }
    Ok(shifts)
}

/// Whether an alias leads where a route does.
pub fn stands(alias: &Alias, route: Route) -> bool {
    let percent = |share: f64| (share * 100.0).round();
    let others: Vec<_> =
        alias.others.iter().map(|(version, share)| (version.clone(), percent(*share))).collect();
    let other = route.other.map(|(version, share)| (version.to_string(), f64::from(share)));
    alias.version == route.version.to_string() && others == Vec::from_iter(other)
}

/// The way to take a shift back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undo {
    /// The alias leads where it led before.
    Nothing,
    /// Lead it back, from this revision.
    Lead(String),
    /// It leads where this rollout has not led it: something else has changed it.
    Foreign,
}

/// Decides how to take a shift back, by the alias as it is now.
pub fn undo(shift: &Shift, alias: &Alias) -> Undo {
    let (from, to) = (shift.from.to_string(), shift.to.to_string());
    if alias.version == from && alias.others.is_empty() {
        return Undo::Nothing;
    }
    let is_ours = [&from, &to].contains(&&alias.version)
        && alias.others.keys().all(|version| *version == to)
        && alias.description == OURS;
    if is_ours { Undo::Lead(alias.revision.clone()) } else { Undo::Foreign }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "gridpost";

    fn alias(version: &str, others: &[(&str, f64)]) -> Alias {
        Alias {
            version: version.to_owned(),
            others: others.iter().map(|(version, share)| ((*version).to_owned(), *share)).collect(),
            description: OURS.to_owned(),
            revision: "r1".to_owned(),
        }
    }

    fn function(role: &str, alias: Option<Alias>, versions: &[u64]) -> Function {
        Function { role: role.to_owned(), alias, versions: versions.to_vec() }
    }

    #[test]
    fn terraform_describes_the_alias_as_ours_and_leaves_it_alone() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/modules/function/main.tf");
        let text = std::fs::read_to_string(file).expect("the module");
        let (_, ours) =
            text.split_once("resource \"aws_lambda_alias\" \"shifted\"").expect("an alias");
        let ours = ours.split("\n}").next().unwrap_or_default();
        for want in [
            format!("description      = \"{OURS}\""),
            format!("name             = \"{ALIAS}\""),
            "ignore_changes        = [function_version, routing_config]".to_owned(),
        ] {
            assert!(ours.contains(&want), "{want} is not in{ours}");
        }
        assert_eq!(text.matches(OURS).count(), 1, "the other alias is Terraform's");
    }

    #[test]
    fn a_choice_is_a_function_and_perhaps_a_version() {
        let choice = |role, version| Ok(Choice { role, version });
        assert_eq!("dispatch".parse(), choice("dispatch", None));
        assert_eq!("dead-letter=7".parse(), choice("dead-letter", Some(7)));
        for given in ["", "enlarge", "dispatch=", "dispatch=0", "dispatch=-1", "dispatch=$LATEST"] {
            assert!(given.parse::<Choice>().is_err(), "{given}");
        }
        assert_eq!(roles(&[]), FUNCTIONS);
        let two: Vec<Choice> = ["ingest", "wake=3"].map(|it| it.parse().expect("a choice")).into();
        assert_eq!(roles(&two), ["wake", "ingest"]);
    }

    #[test]
    fn functions_that_an_earlier_version_does_not_have_are_left_out() {
        let chosen: [Choice; 1] = ["expand".parse().expect("a choice")];
        let told = left_out(PREFIX, &["redrive", "expand"], &[]).expect("left out");
        assert!(told.is_some_and(|it| it.ends_with(": gridpost-redrive, gridpost-expand")));
        assert_eq!(left_out(PREFIX, &[], &[]).expect("all there"), None);
        assert_eq!(left_out(PREFIX, &[], &chosen).expect("it is there"), None);
        let table: [(&[&str], &[Choice], &str); 2] = [
            (&["expand"], &chosen, "the deployment has no function gridpost-expand"),
            (&FUNCTIONS, &[], "there is no function of gridpost: give"),
        ];
        for (missing, chosen, want) in table {
            let refused = left_out(PREFIX, missing, chosen).expect_err(want).0;
            assert!(refused.starts_with(want), "{refused}");
        }
    }

    #[test]
    fn functions_go_to_their_newest_version_or_the_one_that_was_chosen() {
        let found = [
            function("dispatch", Some(alias("7", &[])), &[6, 7, 12, 9]),
            function("wake", Some(alias("4", &[])), &[4, 3]),
        ];
        let shift = |function: &str, from, to| Shift { function: function.to_owned(), from, to };
        let table: [(&[&str], Vec<Shift>); 4] = [
            (&[], vec![shift("dispatch", 7, 12)]),
            (&["dispatch=6", "wake=3"], vec![shift("dispatch", 7, 6), shift("wake", 4, 3)]),
            (&["dispatch=7"], vec![]),
            (&["dispatch=6", "dispatch=9"], vec![shift("dispatch", 7, 9)]),
        ];
        for (chosen, want) in table {
            let chosen: Vec<Choice> = chosen.iter().map(|it| it.parse().expect("one")).collect();
            assert_eq!(shifts(PREFIX, &found, &chosen).expect("shifts"), want, "{chosen:?}");
        }
    }

    #[test]
    fn what_is_not_ours_to_shift_is_refused() {
        let led = Alias { description: "Terraform leads it".to_owned(), ..alias("7", &[]) };
        let table = [
            (None, "has no alias live"),
            (Some(led), "Terraform leads the alias live of gridpost-dispatch"),
            (Some(alias("7", &[("8", 0.2)])), "version 8 gets 20 percent"),
            (Some(alias("$LATEST", &[])), "leads to $LATEST"),
            (Some(alias("6", &[])), "gridpost-dispatch has no version 5"),
        ];
        for (alias, want) in table {
            let found = [function("dispatch", alias, &[6, 7])];
            let chosen = ["dispatch=5".parse().expect("a choice")];
            let told = shifts(PREFIX, &found, &chosen).expect_err(want).0;
            assert!(told.contains(want), "{told}");
        }
    }

    #[test]
    fn an_alias_leads_to_both_versions_in_between() {
        let shift = Shift { function: "wake".to_owned(), from: 1, to: 2 };
        let table = [(0, 1, None), (1, 1, Some((2, 1))), (99, 1, Some((2, 99))), (100, 2, None)];
        for (percent, version, other) in table {
            assert_eq!(shift.route(percent), Route { version, other }, "{percent}");
        }
    }

    #[test]
    fn an_alias_stands_where_a_route_leads() {
        let route = Route { version: 1, other: Some((2, 29)) };
        let table = [
            (alias("1", &[("2", 0.29)]), true),
            (alias("1", &[("2", 0.3)]), false),
            (alias("1", &[("3", 0.29)]), false),
            (alias("2", &[("2", 0.29)]), false),
            (alias("1", &[]), false),
        ];
        for (alias, want) in table {
            assert_eq!(stands(&alias, route), want, "{alias:?}");
        }
        assert!(stands(&alias("2", &[]), Route { version: 2, other: None }));
    }

    #[test]
    fn what_two_versions_share_was_left_behind() {
        let found = [
            function("dispatch", Some(alias("7", &[("8", 0.5)])), &[7, 8]),
            function("wake", Some(alias("4", &[])), &[4, 5]),
        ];
        let want = Shift { function: "dispatch".to_owned(), from: 7, to: 8 };
        assert_eq!(left_behind(PREFIX, &found).expect("ours"), [want]);
        assert!(left_behind(PREFIX, &[function("wake", None, &[])]).is_err());
    }

    #[test]
    fn only_what_was_shifted_is_taken_back() {
        let shift = Shift { function: "wake".to_owned(), from: 1, to: 2 };
        let lead = || Undo::Lead("r1".to_owned());
        let renamed = Alias { description: String::new(), ..alias("2", &[]) };
        let table = [
            (alias("1", &[]), Undo::Nothing),
            (alias("1", &[("2", 0.1)]), lead()),
            (alias("2", &[]), lead()),
            (alias("3", &[]), Undo::Foreign),
            (alias("1", &[("3", 0.1)]), Undo::Foreign),
            (renamed, Undo::Foreign),
        ];
        for (alias, want) in table {
            assert_eq!(undo(&shift, &alias), want, "{alias:?}");
        }
    }
}
