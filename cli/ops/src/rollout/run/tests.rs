use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Mutex;

use anyhow::bail;

use super::*;
use crate::rollout::plan::{OURS, Route, shifts};

/// An account in memory. Alarms go off at a time; calls fail while they are told to.
struct Fake {
    began: Instant,
    aliases: Mutex<BTreeMap<String, Alias>>,
    /// Each change: when, of what, and where to.
    led: Mutex<Vec<(u64, String, Route)>>,
    /// From which second on the alarm is off.
    off_at: Option<u64>,
    /// In which seconds alarms can't be read.
    blind: std::ops::Range<u64>,
    /// How many calls of `lead` fail, by the number of the first one.
    failing: Mutex<std::ops::Range<usize>>,
    /// What changes an alias beside the rollout, and when.
    foreign_at: Option<u64>,
}

impl Fake {
    fn new(roles: &[&str]) -> Self {
        let alias = |role: &&str| {
            let alias = Alias {
                version: "1".to_owned(),
                description: OURS.to_owned(),
                revision: "0".to_owned(),
                ..Alias::default()
            };
            ((*role).to_owned(), alias)
        };
        Self {
            began: Instant::now(),
            aliases: Mutex::new(roles.iter().map(alias).collect()),
            led: Mutex::default(),
            off_at: None,
            blind: 0..0,
            failing: Mutex::new(0..0),
            foreign_at: None,
        }
    }

    fn seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    fn led(&self) -> Vec<(u64, String, Route)> {
        self.led.lock().expect("no panic").clone()
    }

    /// Where all aliases lead: version and what else.
    fn stands(&self) -> Vec<(String, BTreeMap<String, f64>)> {
        let aliases = self.aliases.lock().expect("no panic");
        aliases.values().map(|alias| (alias.version.clone(), alias.others.clone())).collect()
    }
}

impl Account for Fake {
    async fn alias(&self, role: &str) -> anyhow::Result<Option<Alias>> {
        let mut aliases = self.aliases.lock().expect("no panic");
        if let (Some(at), Some(alias)) = (self.foreign_at, aliases.get_mut(role))
            && role == "wake"
            && self.seconds() >= at
        {
            (alias.version, alias.others) = ("9".to_owned(), BTreeMap::new());
        }
        Ok(aliases.get(role).cloned())
    }

    async fn versions(&self, role: &str) -> anyhow::Result<Option<Vec<u64>>> {
        let is_there = self.aliases.lock().expect("no panic").contains_key(role);
        Ok(is_there.then(|| vec![1, 2]))
    }

    async fn lead(&self, role: &str, route: Route, revision: &str) -> anyhow::Result<()> {
        let count = {
            let mut led = self.led.lock().expect("no panic");
            led.push((self.seconds(), role.to_owned(), route));
            led.len() - 1
        };
        if self.failing.lock().expect("no panic").contains(&count) {
            bail!("lambda:UpdateAlias got no answer");
        }
        let mut aliases = self.aliases.lock().expect("no panic");
        let alias = aliases.get_mut(role).expect("a function");
        if alias.revision != revision {
            bail!("PreconditionFailedException");
        }
        alias.revision = (count + 1).to_string();
        alias.version = route.version.to_string();
        let other = route.other.map(|(version, percent)| (version, f64::from(percent) / 100.0));
        alias.others =
            other.into_iter().map(|(version, share)| (version.to_string(), share)).collect();
        Ok(())
    }

    async fn alarms(&self) -> anyhow::Result<Vec<Alarm>> {
        let now = self.seconds();
        if self.blind.contains(&now) {
            bail!("cloudwatch:DescribeAlarms got no answer");
        }
        let is_off = self.off_at.is_some_and(|at| now >= at);
        let state = if is_off { "ALARM" } else { "OK" };
        Ok(vec![Alarm { name: "g-late".into(), state: state.into(), reason: String::new() }])
    }
}

const PACE: Pace = Pace { step: 50, every: Duration::from_secs(600) };

/// Rolls both functions out; what came of it.
async fn rolled_out(fake: &Fake, stop: impl Future<Output = ()>) -> Ended {
    paced(fake, PACE, false, stop).await
}

async fn paced(fake: &Fake, pace: Pace, unwatched: bool, stop: impl Future<Output = ()>) -> Ended {
    let (found, missing) = functions(fake, &[]).await.expect("functions");
    assert_eq!(missing.len(), 5, "an account of an earlier version has fewer: {missing:?}");
    let shifts = shifts("g", &found, &[]).expect("shifts");
    assert_eq!(shifts.len(), 2);
    let rollout = Rollout {
        account: fake,
        prefix: "g",
        shifts: &shifts,
        pace,
        ignored: &[],
        may_be_unwatched: unwatched,
        progress: &Progress::silent(),
    };
    rollout.run(stop).await
}

fn alone(version: &str) -> Vec<(String, BTreeMap<String, f64>)> {
    vec![(version.to_owned(), BTreeMap::new()); 2]
}

const ROLES: [&str; 2] = ["dispatch", "wake"];

#[tokio::test(start_paused = true)]
async fn everything_is_shifted_by_steps_that_are_watched() {
    let fake = Fake::new(&ROLES);
    assert_eq!(rolled_out(&fake, pending()).await, Ended::Shifted);
    let half = Route { version: 1, other: Some((2, 50)) };
    let all = Route { version: 2, other: None };
    let want =
        [(0, "dispatch", half), (0, "wake", half), (600, "dispatch", all), (600, "wake", all)];
    let want = want.map(|(at, role, route)| (at, role.to_owned(), route));
    assert_eq!(fake.led(), want);
    assert_eq!(
        (fake.seconds(), fake.stands()),
        (1_200, alone("2")),
        "the last step is watched, too"
    );
}

#[tokio::test(start_paused = true)]
async fn an_alarm_takes_everything_back_within_a_look() {
    // (when it goes off, percent, when all is back)
    for (off_at, percent, back_at) in [(20, 50, 30), (601, 100, 615), (1_190, 100, 1_200)] {
        let fake = Fake { off_at: Some(off_at), ..Fake::new(&ROLES) };
        let ended = rolled_out(&fake, pending()).await;
        let Ended::Reverted { percent: found, reason: Reason::Alarms(alarms), left } = ended else {
            panic!("{ended:?}");
        };
        assert_eq!((found, alarms.len(), left.len()), (percent, 1, 0));
        assert_eq!(fake.stands(), alone("1"), "{off_at}");
        assert!(fake.seconds() <= back_at, "{off_at}: back after {} s", fake.seconds());
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_begins_while_an_alarm_is_off() {
    let fake = Fake { off_at: Some(0), ..Fake::new(&ROLES) };
    assert!(matches!(rolled_out(&fake, pending()).await, Ended::NotBegun(Reason::Alarms(_))));
    assert_eq!(fake.led(), []);
}

#[tokio::test(start_paused = true)]
async fn the_way_back_is_open_while_an_alarm_is_off() {
    let fake = Fake { off_at: Some(0), ..Fake::new(&ROLES) };
    let at_once = Pace { step: 100, every: Duration::ZERO };
    assert_eq!(paced(&fake, at_once, true, pending()).await, Ended::Shifted);
    assert_eq!((fake.seconds(), fake.stands()), (0, alone("2")));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_stopped_takes_back_what_it_has_shifted() {
    let fake = Fake::new(&ROLES);
    let ended = rolled_out(&fake, sleep(Duration::from_secs(700))).await;
    let want = Ended::Reverted { percent: 100, reason: Reason::Stopped, left: Vec::new() };
    assert_eq!((ended, fake.stands(), fake.seconds()), (want, alone("1"), 700));
}

#[tokio::test(start_paused = true)]
async fn a_short_time_without_sight_of_the_alarms_is_borne_and_a_long_one_is_not() {
    let fake = Fake { blind: 590..700, ..Fake::new(&ROLES) };
    assert_eq!(rolled_out(&fake, pending()).await, Ended::Shifted);
    let second = fake.led()[2].0;
    assert!((700..720).contains(&second), "the second step waited for sight: {second}");
    let fake = Fake { blind: 100..5_000, ..Fake::new(&ROLES) };
    let ended = rolled_out(&fake, pending()).await;
    assert!(matches!(ended, Ended::Reverted { reason: Reason::Blind(_), .. }), "{ended:?}");
    assert_eq!(fake.stands(), alone("1"));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_halfway_is_taken_back() {
    // The second call: dispatch is shifted, wake is not.
    let fake = Fake::new(&ROLES);
    *fake.failing.lock().expect("no panic") = 1..2;
    let ended = rolled_out(&fake, pending()).await;
    let Ended::Reverted { percent: 50, reason: Reason::Refused(why), left } = ended else {
        panic!("{ended:?}")
    };
    assert!(why.contains("no answer") && left.is_empty(), "{why} {left:?}");
    assert_eq!(fake.stands(), alone("1"));
}

#[tokio::test(start_paused = true)]
async fn taking_back_is_tried_again_and_told_where_it_fails() {
    // Two steps' calls succeed; then some fail: of each function up to six are made.
    for (failing, left_behind) in [(4..6, 0), (4..10, 1), (4..100, 2)] {
        let fake = Fake { off_at: Some(700), ..Fake::new(&ROLES) };
        *fake.failing.lock().expect("no panic") = failing.clone();
        let ended = rolled_out(&fake, pending()).await;
        let Ended::Reverted { left, .. } = ended else { panic!("{ended:?}") };
        assert_eq!(left.len(), left_behind, "{failing:?}: {left:?}");
        assert!(left.iter().all(|told| told.starts_with("g-") && told.contains("no answer")));
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_has_led_elsewhere_is_left_there() {
    let fake = Fake { foreign_at: Some(300), ..Fake::new(&ROLES) };
    let ended = rolled_out(&fake, pending()).await;
    let Ended::Reverted { reason: Reason::Refused(why), left, .. } = ended else {
        panic!("{ended:?}")
    };
    assert!(why.contains("g-wake was led elsewhere"), "{why}");
    assert_eq!(left, ["g-wake: was led elsewhere meanwhile, and stays there"]);
    let versions: Vec<_> = fake.stands().into_iter().map(|(version, _)| version).collect();
    assert_eq!(versions, ["1", "9"], "dispatch went back, wake stays");
}
