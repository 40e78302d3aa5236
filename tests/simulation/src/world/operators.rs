//! Operators: they call manage, and retry until they get an answer.

use std::{rc::Rc, sync::Arc, time::Duration};

use gridpost_manage::{Context, Request, answer};
use gridpost_ports::Clock;
use gridpost_testkit::faults::Instance;
use http::Method;
use serde_json::{Value, json};

use super::Simulation;
use crate::{
    lambda::Function,
    scenario::{Operate, Operation},
};

/// The number of tries after which an operator gives up.
const TRIES_MAX: u32 = 30;

/// manage's timeout, as deployed.
const MANAGE_TIMEOUT: Duration = Duration::from_secs(29);

/// A request of an operator.
struct Ask {
    name: &'static str,
    method: Method,
    path: String,
    body: Value,
}

impl Simulation {
    pub(super) async fn operate_on(self: &Rc<Self>, operation: &Operation) {
        let from = self.clock.now();
        if let Some(ask) = self.ask_for(operation).await {
            self.trace(|| format!("operator: {} {}", ask.name, operation.of));
            self.ask(&ask).await;
        }
        let until = self.clock.now();
        self.history().operated.at_work.push(from..until);
    }

    /// Sends everything of the poison queue back.
    pub(super) async fn resend_poison(&self) {
        let ask = posts("resend poison", "/poison:resend".to_owned(), json!({"all": true}));
        self.ask(&ask).await;
    }

    async fn ask_for(&self, operation: &Operation) -> Option<Ask> {
        let Operation { of, what, .. } = operation;
        let (topic, name) = (&of.topic, &of.name);
        let path = |end: &str| format!("/topics/{topic}/eventSubscriptions/{name}{end}");
        let chosen = json!({"topic": topic, "eventSubscription": name});
        let patch = |name, properties: Value| {
            let body = json!({ "properties": properties });
            Ask { name, method: Method::PATCH, path: path(""), body }
        };
        let jobs = path("/redrives");
        Some(match what {
            Operate::Label => patch("label", json!({"labels": [operation.at.to_iso_8601()]})),
            Operate::Move(number) => {
                let url = format!("https://{topic}.example/{name}/moved/{number}");
                let properties = json!({ "endpointUrl": url });
                let destination = json!({"endpointType": "WebHook", "properties": properties});
                patch("move", json!({ "destination": destination }))
            }
            Operate::Reset => posts("reset", path("/health:reset"), Value::Null),
            Operate::Resend => {
                let id = self.first("deliveries", path("/deliveries")).await?;
                posts("resend", path(&format!("/deliveries/{id}/resend")), Value::Null)
            }
            Operate::Release => posts("release", "/parked:release".to_owned(), chosen),
            Operate::Cancel => posts("cancel", "/parked:cancel".to_owned(), chosen),
            Operate::Redrive => posts("redrive", path("/deadLetters:redrive"), json!({})),
            Operate::StopRedrive => {
                let id = self.first("redrives", jobs.clone()).await?;
                posts("stop", format!("{jobs}/{id}/cancel"), Value::Null)
            }
            Operate::ResumeRedrive => {
                let id = self.first("redrives", jobs.clone()).await?;
                posts("resume", format!("{jobs}/{id}/resume"), json!({}))
            }
            Operate::Pause { time_to_live_runs } => {
                posts("pause", path("/pause"), json!({ "timeToLiveRuns": time_to_live_runs }))
            }
            Operate::Resume => posts("resume paused", path("/resume"), Value::Null),
            Operate::PurgePoison => {
                posts("purge poison", "/poison:purge".to_owned(), json!({"all": true}))
            }
        })
    }

    /// The id of the first of a list.
    async fn first(&self, name: &'static str, path: String) -> Option<String> {
        let ask = Ask { name, method: Method::GET, path, body: Value::Null };
        let (_, body) = self.ask(&ask).await?;
        body["value"][0]["id"].as_str().map(str::to_owned)
    }

    /// Asks until there is an answer that is not a failure of ours.
    async fn ask(&self, ask: &Ask) -> Option<(u16, Value)> {
        for _ in 0..TRIES_MAX {
            let instance = self.instance(Instance::of_operators());
            let context = self.manage(&instance);
            if let Some((status, body)) = self.answered(&instance, &context, ask).await {
                self.history().operated.answers.insert((ask.name, status));
                // Consent requests fail as other calls do.
                let is_unproven = body["error"]["code"] == "Endpoint validation";
                match status {
                    400 if is_unproven => {}
                    400 => self.violation(&format!("{}: an operator is refused: {body}", ask.path)),
                    500.. => {}
                    _ => return Some((status, body)),
                }
            }
            tokio::time::sleep(self.dice.millis(500..5_000)).await;
        }
        None
    }

    /// Returns the answer of a copy of manage, if it lives until then.
    async fn answered(
        &self,
        instance: &Arc<Instance>,
        context: &Context,
        ask: &Ask,
    ) -> Option<(u16, Value)> {
        let body = if ask.body.is_null() { Vec::new() } else { ask.body.to_string().into_bytes() };
        let request = Request::new(ask.method.clone(), ask.path.clone(), body);
        let began_at = self.clock.now();
        let answered = async {
            tokio::select! { biased;
                reply = answer(context, &request) => Some(reply),
                () = instance.died() => None,
                () = self.injector.moment_of_death() => {
                    self.injector.kill(instance);
                    None
                }
                () = tokio::time::sleep(MANAGE_TIMEOUT) => {
                    self.injector.kill(instance);
                    None
                }
            }
        };
        let reply = self.while_it_lives(answered).await.flatten();
        self.note_used(Function::Manage, instance, began_at);
        let reply = reply?;
        context.meter.flush(self.clock.now());
        Some((reply.status, reply.body.unwrap_or_default()))
    }

    fn trace(&self, line: impl FnOnce() -> String) {
        self.history().trace(self.clock.now(), line);
    }
}

fn posts(name: &'static str, path: String, body: Value) -> Ask {
    Ask { name, method: Method::POST, path, body }
}
