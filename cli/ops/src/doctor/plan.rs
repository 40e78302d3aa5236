//! Reads what the rules need of a plan: its resources with their known values, and which resources
//! their arguments name.
//!
//! Source: Terraform, "JSON output format".

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A document that is no plan, or none that can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error(
        "this is no plan as JSON: it has no planned_values; make it by \
         terraform plan -out FILE, then terraform show -json FILE"
    )]
    NoPlan,
    #[error(
        "this plan failed (errored): Terraform stopped before all of it was planned, so it says nothing \
         about the rest; mend what terraform plan says, and make it again"
    )]
    Failed,
    #[error(
        "this plan is not complete: it leaves resources to a later one (complete is false); plan the whole \
         configuration, without -target"
    )]
    Incomplete,
}

/// A plan.
#[derive(Debug)]
pub struct Plan<'a> {
    pub resources: Vec<Resource<'a>>,
    pub provider: Option<&'a str>,
}

/// A resource as it will be.
#[derive(Debug)]
pub struct Resource<'a> {
    /// Its address: `module.gridpost.aws_sqs_queue.retry[0]`.
    pub address: &'a str,
    /// Its type: `aws_sqs_queue`.
    pub kind: &'a str,
    pub values: &'a Value,
    /// The provider that makes it, `aws` or `aws.standby`: another one may be for another region or
    /// account.
    pub provider: &'a str,
    /// What the plan does to it: its `actions`, and in `after_unknown`, in the shape of `values`, `true` for
    /// what is known only once the plan is applied.
    change: &'a Value,
    /// By argument, the resources and modules that it names, relative to its own module.
    named: BTreeMap<&'a str, Vec<&'a str>>,
    /// By argument, whatever it or a block of it names, as seen from the root module: inputs of modules are
    /// followed to what they are given.
    traced: BTreeMap<&'a str, Vec<String>>,
}

impl<'a> Plan<'a> {
    /// Reads a plan.
    pub fn read(document: &'a Value) -> Result<Self, PlanError> {
        if document["errored"] == true {
            return Err(PlanError::Failed);
        }
        if document["complete"] == false {
            return Err(PlanError::Incomplete);
        }
        let root = document.pointer("/planned_values/root_module").ok_or(PlanError::NoPlan)?;
        let configuration = &document["configuration"];
        let mut configured = Configured::default();
        configured.read(&configuration["root_module"], "");
        for change in list(&document["resource_changes"]) {
            let address = change["address"].as_str().unwrap_or_default();
            configured.changes.insert(address, &change["change"]);
        }
        let mut resources = Vec::new();
        collect(root, &configured, &mut resources);
        let providers = configuration["provider_config"].as_object();
        let is_aws = |provider: &&Value| {
            provider["full_name"].as_str().is_some_and(|name| name.ends_with("hashicorp/aws"))
        };
        let provider = providers.and_then(|all| all.values().find(is_aws));
        let provider = provider.and_then(|aws| aws["version_constraint"].as_str());
        Ok(Self { resources, provider })
    }

    /// Resources of a type.
    pub fn of(&self, kind: &'static str) -> impl Iterator<Item = &Resource<'a>> {
        self.resources.iter().filter(move |resource| resource.kind == kind)
    }

    /// Resources of a type that an argument of a resource names, in the same module or in one that
    /// it calls. Where there are several by count or for_each, the one with the resource's own index.
    pub fn named(
        &self,
        by: &Resource<'_>,
        argument: &str,
        kind: &'static str,
    ) -> Vec<&Resource<'a>> {
        let names: BTreeSet<_> = by.named.get(argument).into_iter().flatten().copied().collect();
        let module = module_of(by.address);
        let is_named = |resource: &&Resource<'a>| {
            let path = resource.address.strip_prefix(module);
            let path = path.map_or("", |path| path.trim_start_matches('.'));
            names.iter().any(|name| is_below(path, name))
        };
        let found: Vec<_> = self.of(kind).filter(is_named).collect();
        let same = |resource: &&&Resource<'a>| index(resource.address) == index(by.address);
        let of_same_index: Vec<_> = found.iter().filter(same).copied().collect();
        if of_same_index.is_empty() { found } else { of_same_index }
    }
}

/// The regions that a plan deploys to, by its own providers for AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    /// The region of the provider without an alias; none where the environment says it.
    pub main: Option<String>,
    /// Providers with an alias, which may be for other regions.
    pub aliased: Vec<String>,
}

impl Regions {
    /// Reads the regions of a plan.
    pub fn of(document: &Value) -> Self {
        let mut regions = Self::default();
        let providers = document.pointer("/configuration/provider_config");
        for (key, provider) in providers.and_then(Value::as_object).into_iter().flatten() {
            match key.as_str() {
                "aws" => regions.main = region(provider, &document["variables"]),
                key if key.starts_with("aws.") => regions.aliased.push(key.to_owned()),
                _ => {}
            }
        }
        regions
    }
}

/// A provider's region: written out, or a variable of the root.
fn region(provider: &Value, variables: &Value) -> Option<String> {
    let told = &provider["expressions"]["region"];
    if let Some(region) = told["constant_value"].as_str() {
        return Some(region.to_owned());
    }
    let [reference] = told["references"].as_array()?.as_slice() else { return None };
    let variable = reference.as_str()?.strip_prefix("var.")?;
    variables[variable]["value"].as_str().map(str::to_owned)
}

impl Resource<'_> {
    /// A value by its path, `scaling_config.0.maximum_concurrency`. None where it is not known.
    pub fn at(&self, path: &str) -> Option<&Value> {
        let mut value = self.values;
        for part in path.split('.') {
            value = match part.parse::<usize>() {
                Ok(index) => value.get(index)?,
                Err(_) => value.get(part)?,
            };
        }
        (!value.is_null()).then_some(value)
    }

    /// Whether a value is known only once the plan is applied, by its path.
    pub fn is_unknown(&self, path: &str) -> bool {
        let mut value = &self.change["after_unknown"];
        for part in path.split('.') {
            value = match part.parse::<usize>() {
                Ok(index) => &value[index],
                Err(_) => &value[part],
            };
        }
        *value == Value::Bool(true)
    }

    /// Whether the plan makes it, be it in place of another; true where the plan does not tell.
    pub fn is_created(&self) -> bool {
        self.does(|action| action == "create")
    }

    /// Whether the plan changes it; true where the plan does not tell.
    pub fn is_changed(&self) -> bool {
        self.does(|action| !["no-op", "read"].contains(&action))
    }

    fn does(&self, is_it: fn(&str) -> bool) -> bool {
        let actions = list(&self.change["actions"]);
        actions.is_empty() || actions.iter().filter_map(Value::as_str).any(is_it)
    }

    /// Whether an argument or a block of it names something that begins so, as seen from the root module:
    /// `module.gridpost["orders"].publish_host`. Names may leave indexes out.
    pub fn traces(&self, argument: &str, start: &str) -> bool {
        let names = self.traced.get(argument).into_iter().flatten();
        names.into_iter().any(|name| is_of(name, start))
    }

    /// Whether the configuration gives an argument.
    pub fn is_set(&self, argument: &str) -> bool {
        self.named.contains_key(argument)
    }

    /// A text by its path.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.at(path)?.as_str()
    }

    /// A whole number by its path.
    pub fn number(&self, path: &str) -> Option<i64> {
        self.at(path)?.as_i64()
    }
}

/// How the configuration makes the resources of a plan.
#[derive(Debug, Default)]
struct Configured<'a> {
    /// Resources by address without indexes.
    resources: BTreeMap<String, &'a Value>,
    /// The inputs of modules by `module.NAME.var.INPUT`.
    inputs: BTreeMap<String, &'a Value>,
    /// What the plan does to resources, by address.
    changes: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Configured<'a> {
    fn read(&mut self, module: &'a Value, path: &str) {
        for resource in list(&module["resources"]) {
            let address = resource["address"].as_str().unwrap_or_default();
            self.resources.insert(format!("{path}{address}"), resource);
        }
        for (name, call) in module["module_calls"].as_object().into_iter().flatten() {
            let inner = format!("{path}module.{name}.");
            for (input, expression) in call["expressions"].as_object().into_iter().flatten() {
                self.inputs.insert(format!("{inner}var.{input}"), expression);
            }
            self.read(&call["module"], &inner);
        }
    }

    /// Names, as seen from the root module, everything that an expression of a module refers to.
    fn trace(&self, expression: &Value, path: &str, into: &mut Vec<String>) {
        match expression {
            Value::Array(members) => {
                members.iter().for_each(|member| self.trace(member, path, into));
            }
            Value::Object(members) => {
                for name in references(expression) {
                    let name = format!("{path}{name}");
                    match self.inputs.get(&without_indexes(&name)) {
                        Some(given) => self.trace(given, outer(path), into),
                        None => into.push(name),
                    }
                }
                members.values().for_each(|member| self.trace(member, path, into));
            }
            _ => {}
        }
    }
}

/// The path of the module that calls the one of a path: `module.a.` of `module.a.module.b.`.
fn outer(path: &str) -> &str {
    let inner = path.trim_end_matches('.');
    inner.rfind("module.").map_or("", |start| &path[..start])
}

fn collect<'a>(module: &'a Value, configured: &Configured<'a>, into: &mut Vec<Resource<'a>>) {
    for resource in list(&module["resources"]) {
        let text = |member: &str| resource[member].as_str().unwrap_or_default();
        if text("mode") == "data" {
            continue;
        }
        let address = resource["address"].as_str().unwrap_or_default();
        let plain = without_indexes(address);
        let resource_configured = configured.resources.get(&plain);
        let expressions = resource_configured.and_then(|all| all["expressions"].as_object());
        let provider = resource_configured.and_then(|all| all["provider_config_key"].as_str());
        let path = match module_of(&plain) {
            "" => String::new(),
            module => format!("{module}."),
        };
        let trace = |(argument, expression): (&'a String, &'a Value)| {
            let mut names = Vec::new();
            configured.trace(expression, &path, &mut names);
            (argument.as_str(), names)
        };
        let name = |(argument, expression): (&'a String, &'a Value)| {
            (argument.as_str(), references(expression).collect())
        };
        into.push(Resource {
            address,
            kind: resource["type"].as_str().unwrap_or_default(),
            values: &resource["values"],
            provider: provider.unwrap_or_default(),
            change: configured.changes.get(address).copied().unwrap_or(&Value::Null),
            named: expressions.into_iter().flatten().map(name).collect(),
            traced: expressions.into_iter().flatten().map(trace).collect(),
        });
    }
    for child in list(&module["child_modules"]) {
        collect(child, configured, into);
    }
}

/// What an expression refers to. For `a.b[1].arn` Terraform lists `a.b[1]` and `a.b`, too: that would be all
/// instances, and is left out.
fn references(expression: &Value) -> impl Iterator<Item = &str> {
    let names = list(&expression["references"]).iter().filter_map(Value::as_str);
    let is_whole = {
        let names = names.clone();
        move |name: &&str| {
            let mut rests = names.clone().filter_map(|other| other.strip_prefix(name));
            !rests.any(|rest| rest.starts_with('['))
        }
    };
    names.filter(is_whole)
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The module that an address lies in, without a dot at its end; empty for the root module.
pub(super) fn module_of(address: &str) -> &str {
    let mut end = 0;
    for (start, _) in address.match_indices("module.") {
        let is_start = start == 0 || start == end + 1;
        if !is_start {
            continue;
        }
        let rest = &address[start + "module.".len()..];
        let quoted = rest.find('[').filter(|at| rest.find('.').is_none_or(|dot| *at < dot));
        let length = match quoted {
            Some(open) => rest[open..].find(']').map_or(rest.len(), |close| open + close + 1),
            None => rest.find('.').unwrap_or(rest.len()),
        };
        end = start + "module.".len() + length;
    }
    &address[..end]
}

/// An address without its indexes.
fn without_indexes(address: &str) -> String {
    let mut depth = 0_usize;
    let outside = |char: &char| {
        match char {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    address.chars().filter(outside).collect()
}

/// The index of an address' last part, in its brackets.
fn index(address: &str) -> Option<&str> {
    let inner = address.strip_suffix(']')?;
    inner.rfind('[').map(|at| &inner[at + 1..])
}

fn is_below(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Whether a name is an address or lies below it. The name may leave the address' indexes out.
fn is_of(name: &str, address: &str) -> bool {
    let Some((before, rest)) = address.split_once('[') else { return is_below(name, address) };
    let Some(name) = name.strip_prefix(before) else { return false };
    let (index, rest) = rest.split_once(']').unwrap_or((rest, ""));
    match name.strip_prefix('[') {
        Some(own) => own
            .strip_prefix(index)
            .and_then(|own| own.strip_prefix(']'))
            .is_some_and(|name| is_of(name, rest)),
        None => is_of(name, rest),
    }
}
