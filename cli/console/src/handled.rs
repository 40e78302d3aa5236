//! What became of things that were chosen in a table: of each of them.

use std::collections::BTreeSet;

use gridpost_api::{
    requests::{ParkedInput, PurgeInput, ResendInput},
    waiting::{HandledDelivery, HandledMessage, HandledResult, ParkedResult},
};
use gridpost_ops::failure::{Misuse, chain};

use super::Shared;
use super::text;

/// The API's result for one: its id, whether nothing of it is left, and why not.
type Done = (String, bool, Option<String>);

/// Fails with each chosen id that was not handled, and why; where a request has failed behind others that handled
/// some, with how many.
fn check(
    done: &[Done],
    answer: anyhow::Result<bool>,
    ids: &BTreeSet<String>,
) -> anyhow::Result<()> {
    let of = |id: &String| done.iter().find(|(known, ..)| known == id);
    let is_left = |id: &&String| !of(id).is_some_and(|(_, is_handled, _)| *is_handled);
    let left: Vec<_> = ids.iter().filter(is_left).collect();
    let (all, handled) = (ids.len(), ids.len() - left.len());
    match answer {
        Ok(_) if left.is_empty() => return Ok(()),
        Ok(_) => {}
        Err(error) if handled == 0 => return Err(error),
        // A refusal is shown without its context, so what was done is said in a sentence of its own.
        Err(error) => {
            let error = chain(&error);
            anyhow::bail!("{handled} of {all} were handled before it failed.\n{error}");
        }
    }
    // The API does not find what has ended or is in hand elsewhere; of the rest it says why.
    let gone = "it has ended, or is in hand elsewhere";
    let why = |id: &String| of(id).and_then(|(.., why)| why.as_deref()).map(text::visible);
    let why = |id: &&String| format!("{id}: {}", why(id).unwrap_or_else(|| gone.to_owned()));
    let lines: Vec<_> = left.iter().map(why).collect();
    let told = format!("{} of {all} were not handled.\n{}", left.len(), lines.join("\n"));
    Err(Misuse(told).into())
}

/// Returns whether nothing of a delivery is parked any more.
fn is_over(result: ParkedResult, good: ParkedResult) -> bool {
    result == good || matches!(result, ParkedResult::AlreadyDelivered | ParkedResult::AlreadyEnded)
}

/// Has the API release or cancel parked deliveries.
pub(super) async fn change_parked(
    app: &Shared,
    action: &str,
    ids: BTreeSet<String>,
    good: ParkedResult,
) -> anyhow::Result<()> {
    let choice = ParkedInput { ids: Some(ids.clone()), ..ParkedInput::default() };
    let mut done = Vec::new();
    let one = |one: HandledDelivery| (one.id.to_string(), is_over(one.result, good), one.message);
    let take = |some: Vec<HandledDelivery>| done.extend(some.into_iter().map(one));
    let answer = app.api.change_parked(action, &choice, take).await;
    check(&done, answer, &ids)
}

/// Has the API send messages of the poison queue back, or remove them.
pub(super) async fn change_poison(
    app: &Shared,
    ids: BTreeSet<String>,
    good: HandledResult,
) -> anyhow::Result<()> {
    let chosen = Some(ids.clone());
    let handled = match good {
        HandledResult::Purged => app.api.purge_poison(&PurgeInput { ids: chosen, all: None }).await,
        _ => app.api.resend_poison(&ResendInput { ids: chosen, ..ResendInput::default() }).await,
    };
    let one = |one: HandledMessage| (one.id, one.result == good, one.message);
    let done: Vec<_> = handled?.value.into_iter().map(one).collect();
    check(&done, Ok(true), &ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_handled_is_named() {
        let ids = BTreeSet::from(["a", "b"].map(str::to_owned));
        let done = |id: &str, is_handled| (id.to_owned(), is_handled, None);
        let (a, b) = (done("a", true), done("b", true));
        let refused = ("a".to_owned(), false, Some("It can't be read.".to_owned()));
        let failed = || Err(anyhow::anyhow!("503"));
        for (done, answer, want) in [
            (vec![a.clone(), b.clone()], Ok(true), ""),
            (vec![refused, b.clone()], Ok(true), "1 of 2 were not handled.\na: It can't be read."),
            (
                vec![b],
                Ok(true),
                "1 of 2 were not handled.\na: it has ended, or is in hand elsewhere",
            ),
            (vec![a], failed(), "1 of 2 were handled before it failed.\n503"),
            (vec![done("a", false)], failed(), "503"),
        ] {
            let told = check(&done, answer, &ids).err().map(|error| error.to_string());
            assert_eq!(told.unwrap_or_default(), want, "{done:?}");
        }
        let good = ParkedResult::Released;
        for (result, want) in [
            (good, true),
            (ParkedResult::AlreadyDelivered, true),
            (ParkedResult::AlreadyEnded, true),
            (ParkedResult::Canceled, false),
            (ParkedResult::Refused, false),
        ] {
            assert_eq!(is_over(result, good), want, "{result}");
        }
    }
}
