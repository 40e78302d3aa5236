//! What waits for a person: parked deliveries and the poison queue.

use axum::Form;
use axum::extract::{Query, State};
use axum::response::Redirect;
use maud::{Markup, html};
use serde_json::Value;

use super::App;
use super::delivery::outcome;
use super::failure::{self, Answer};
use super::form::{Look, agreed, given};
use super::page::{self, Frame, Tab, subscription_url};
use gridpost_ops::{
    failure::chain,
    manage_api::{
        pages::Page,
        waiting::{Changed, ParkedChoice, is_handled},
    },
    output::text_at,
};

/// Messages of the poison queue that are looked at: a look hides them from others for a while.
const POISON_TOP: u32 = 50;

pub(super) async fn show(State(app): State<App>, Query(look): Query<Look>) -> Answer {
    let choice = ParkedChoice::default();
    let (parked, poison) = tokio::join!(
        app.api.parked_page(&choice, look.after.as_deref()),
        app.api.poison(POISON_TOP)
    );
    let body = html! {
        (page::done(look.done.as_deref()))
        h2 id="parked" { "Parked deliveries" }
        p.muted { "Their next attempt is so far away that a table keeps them. They come back by themselves." }
        @match &parked {
            Ok(parked) => { (parked_section(&app, parked)) }
            Err(error) => { div.problem role="alert" { (failure::told(error)) } }
        }
        h2 id="poison" { "Poison queue" }
        p.muted { "What Gridpost's own code could not read or settle. It should be empty." }
        @match &poison {
            Ok(list) => { (poison_section(&app, list)) }
            Err(error) => { div.problem role="alert" { (failure::told(error)) } }
        }
    };
    let command = "parked list".to_owned();
    let frame = Frame { tab: Tab::Waiting, title: "Parked and poison", above: Vec::new(), command };
    Ok(app.page(&frame, &body))
}

fn parked_section(app: &App, parked: &Page) -> Markup {
    let row = |one: &Value| {
        let (topic, name) = (text_at(one, "/topic"), text_at(one, "/eventSubscription"));
        let id = text_at(one, "/id");
        let url = subscription_url(topic, name, &format!("/deliveries/{}", page::part(id)));
        vec![
            html! { @if app.may_change() {
                input type="checkbox" name="id" value=(id) form="change-parked" aria-label={ "Choose delivery " (id) };
            } },
            page::time_at(one, "/due"),
            html! { a href=(url) { (id) } },
            html! { a href=(subscription_url(topic, name, "")) { (topic) "/" (name) } },
            html! { (page::number_at(one, "/events")) },
            html! { (page::number_at(one, "/deliveryAttempts")) },
            match one["problem"].as_str() {
                Some(problem) => html! { (page::visible(problem)) },
                None => outcome(one, "/lastDeliveryOutcome", "/lastHttpStatusCode"),
            },
        ]
    };
    let rows: Vec<_> = parked.items.iter().map(row).collect();
    let head =
        ["Choose", "Due", "Delivery", "Event subscription", "Events", "Attempts", "Last outcome"];
    html! {
        @if rows.is_empty() && parked.next.is_some() {
            p { "None on this page; the next one may have some." }
        } @else if rows.is_empty() { p { "No delivery is parked." } } @else {
            (page::table("Parked deliveries", &head, &rows))
            @if app.may_change() {
                form id="change-parked" method="post" action="/waiting/parked" {
                    (app.token())
                    button name="action" value="release" { "Attempt the chosen ones now" }
                    label.check {
                        input type="checkbox" name="agreed" value="yes";
                        "End them: they become dead letters, or are lost where there is no destination."
                    }
                    button.danger name="action" value="cancel" { "End the chosen ones" }
                }
            }
        }
        (page::next_page("/waiting", &[], parked.next.as_deref()))
    }
}

/// Pairs of a form, in which a name may come several times.
type Pairs = Vec<(String, String)>;

fn all<'a>(pairs: &'a Pairs, name: &'a str) -> impl Iterator<Item = String> + 'a {
    pairs.iter().filter(move |(known, _)| known == name).filter_map(|(_, value)| given(Some(value)))
}

/// What was chosen, of which no kind is "all": that is for the command line.
fn chosen(pairs: &Pairs) -> anyhow::Result<Vec<String>> {
    let ids: Vec<_> = all(pairs, "id").collect();
    anyhow::ensure!(
        !ids.is_empty(),
        gridpost_ops::failure::Misuse(
            "Nothing was done: choose what is meant in the table.".to_owned()
        )
    );
    Ok(ids)
}

fn check_all_done(answer: &[Value], good: &str, ids: &[String]) -> anyhow::Result<()> {
    let of = |id: &String| answer.iter().find(|one| one["id"] == **id);
    let left = ids.iter().filter(|id| !of(id).is_some_and(|one| is_handled(one, good)));
    // What the API did not find has ended, or is in hand elsewhere; of the rest it says why.
    let why = |one: &Value| one["message"].as_str().map(page::visible);
    let gone = "it has ended, or is in hand elsewhere".to_owned();
    let told: Vec<_> = left
        .map(|id| format!("{id}: {}", of(id).and_then(why).unwrap_or_else(|| gone.clone())))
        .collect();
    anyhow::ensure!(
        told.is_empty(),
        gridpost_ops::failure::Misuse(format!(
            "{} of {} were not handled.\n{}",
            told.len(),
            ids.len(),
            told.join("\n")
        ))
    );
    Ok(())
}

/// The same, where a request may have failed behind others that changed some.
fn check_changed((done, asked): Changed, good: &str, ids: &[String]) -> anyhow::Result<()> {
    let handled = done.iter().filter(|one| is_handled(one, good)).count();
    match asked {
        Ok(()) => check_all_done(&done, good, ids),
        Err(error) if handled == 0 => Err(error),
        // A refusal is shown without its context, so what was done is said in a sentence of its own.
        Err(error) => Err(anyhow::anyhow!(
            "{handled} of {} were handled before it failed.\n{}",
            ids.len(),
            chain(&error)
        )),
    }
}

pub(super) async fn change_parked(
    State(app): State<App>,
    Form(pairs): Form<Pairs>,
) -> Answer<Redirect> {
    let ids = chosen(&pairs)?;
    let choice = ParkedChoice { ids: ids.clone(), ..ParkedChoice::default() };
    if all(&pairs, "action").any(|action| action == "cancel") {
        agreed(&all(&pairs, "agreed").next().unwrap_or_default())?;
        check_changed(app.api.cancel_parked(&choice).await, "Canceled", &ids)?;
        return Ok(Redirect::to("/waiting?done=ended"));
    }
    check_changed(app.api.release_parked(&choice).await, "Released", &ids)?;
    Ok(Redirect::to("/waiting?done=released"))
}

fn poison_section(app: &App, list: &Value) -> Markup {
    let row = |one: &Value| {
        let id = text_at(one, "/id");
        vec![
            html! { @if app.may_change() {
                input type="checkbox" name="id" value=(id) form="change-poison" aria-label={ "Choose message " (id) };
            } },
            html! { (id) },
            html! { (text_at(one, "/kind")) },
            page::time_at(one, "/sentTime"),
            html! { (text_at(one, "/fromQueue")) },
            html! { (page::visible(text_at(one, "/problem"))) },
            html! { (text_at(one, "/resendTo")) },
        ]
    };
    let rows: Vec<_> = list["value"].as_array().into_iter().flatten().map(row).collect();
    let head =
        ["Choose", "Message", "What it is", "Sent", "From", "Why it can't be read", "Goes back to"];
    html! {
        @if rows.is_empty() && list["approximateCount"] == 0 { p.good { "It is empty." } }
        @else if rows.is_empty() {
            p.warn { "About " (page::number_at(list, "/approximateCount")) " messages are there, which another look \
                hides: reload in a minute." }
        } @else {
            p { "About " (page::number_at(list, "/approximateCount")) " messages." }
            (page::table("Messages of the poison queue", &head, &rows))
            @if app.may_change() {
                form id="change-poison" method="post" action="/waiting/poison" {
                    (app.token())
                    button name="action" value="resend" { "Send the chosen ones back" }
                    label.check {
                        input type="checkbox" name="agreed" value="yes";
                        "Remove them for good: their events are counted and logged as dropped."
                    }
                    button.danger name="action" value="purge" { "Remove the chosen ones" }
                }
            }
        }
    }
}

/// Sends messages of the poison queue back, or removes them.
pub(super) async fn change_poison(
    State(app): State<App>,
    Form(pairs): Form<Pairs>,
) -> Answer<Redirect> {
    let ids = chosen(&pairs)?;
    let is_purge = all(&pairs, "action").any(|action| action == "purge");
    let (answer, good) = match is_purge {
        true => {
            agreed(&all(&pairs, "agreed").next().unwrap_or_default())?;
            (app.api.purge_poison(&ids).await?, "Purged")
        }
        false => (app.api.resend_poison(&ids, None).await?, "Resent"),
    };
    let done = answer["value"].as_array().cloned().unwrap_or_default();
    check_all_done(&done, good, &ids)?;
    Ok(Redirect::to("/waiting?done=poison#poison"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_not_handled_is_named() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let pairs = vec![pair("csrf", "x"), pair("id", "a"), pair("id", "b")];
        let ids = chosen(&pairs).expect("two");
        assert!(chosen(&vec![pair("csrf", "x")]).is_err());
        let done = |result: &str| json!({"id": "a", "result": result});
        let other = json!({"id": "b", "result": "Released"});
        assert!(check_all_done(&[done("Released"), other.clone()], "Released", &ids).is_ok());
        let late = [done("AlreadyDelivered"), other.clone()];
        assert!(check_all_done(&late, "Released", &ids).is_ok(), "nothing is left of it");
        let refused = json!({"id": "a", "result": "Refused", "message": "It can't be read."});
        for (answer, want) in [
            (vec![refused, other.clone()], "a: It can't be read."),
            (vec![other], "a: it has ended, or is in hand elsewhere"),
        ] {
            let left = check_all_done(&answer, "Released", &ids).expect_err("one").to_string();
            assert_eq!(left, format!("1 of 2 were not handled.\n{want}"));
        }
        let half = || (vec![done("Released")], Err(anyhow::anyhow!("503")));
        let left = check_changed(half(), "Released", &ids).expect_err("half").to_string();
        assert_eq!(left, "1 of 2 were handled before it failed.\n503");
        let left = check_changed(half(), "Canceled", &ids).expect_err("nothing").to_string();
        assert_eq!(left, "503");
    }
}
