//! Asks the journal.
//!
//! The id of a question is the question itself, so that nothing about it is stored: the journal's reader
//! knows equal questions.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use gridpost_api::{
    document::{Code, Problems, quoted},
    error::ErrorCode,
    journal::{
        JournalQuery,
        JournalQueryStatus::{Running, Succeeded, TooDear},
        query::{JournalQueryInput, MAX_DOLLARS},
    },
};
use gridpost_core::{
    journal::{AttemptsQuestion, Known, Question},
    retry::outcome::Outcome,
    time::Timestamp,
};
use gridpost_ports::{JournalError, JournalReply, Progress, Reads};
use serde::Serialize;

use super::{Answer, InContext, openapi::*, sent::Sent};
use crate::{
    Context, Reply,
    page::{BYTES_MAX, Form, Page},
};

/// The longest id: it is part of a path, and API Gateway takes 10,240 bytes of path and headers together.
const ID_BYTES_MAX: usize = 8_000;

const FIRST: Form = Form { filters: &[], is_token: None };
const LIST: Form = Form { filters: &[], is_token: Some(|_| true) };

/// Ask what became of events: attempts, the ledger, or counts over time
#[utoipa::path(
    post,
    path = "/journalQueries",
    operation_id = "askJournal",
    params(Top),
    request_body = JournalQueryInput,
    responses(
        (status = 200, description = "The answer, or its first page.", body = JournalQuery),
        (status = 202, body = JournalQuery,
            description = "It takes longer, and runs: look again. Or it would cost more than \
                maxDollars, and was not begun. Equal questions share a run."),
        Refused, NotDocument, Busy
    )
)]
pub(super) async fn ask(context: InContext, sent: Sent) -> Answer {
    let (page, document) = (sent.page_of(FIRST)?, sent.document()?);
    let (given, question) = JournalQueryInput::read(&document, context.clock.now())?;
    sent.check_scope(question.topic())?;
    let id = id_of(&question);
    if id.len() > ID_BYTES_MAX {
        let mut problems = Problems::default();
        let rule = format!("makes an id of {} bytes, over the limit of {ID_BYTES_MAX}", id.len());
        problems.add(Code::OutOfRange, "$", rule);
        return Err(problems.into());
    }
    answer(&context, id, question, &page, Some(given.max_dollars.unwrap_or(MAX_DOLLARS))).await
}

/// Look again for the answer to a question, or at a page of it
#[utoipa::path(
    get,
    path = "/journalQueries/{id}",
    operation_id = "getJournalQuery",
    params(OfJournalQuery, Paging),
    responses(
        (status = 200, description = "The answer, or a page of it.", body = JournalQuery),
        (status = 202, description = "It still runs: look again.", body = JournalQuery),
        Refused, Missing, Busy
    )
)]
pub(super) async fn look(context: InContext, sent: Sent) -> Answer {
    let (page, id) = (sent.page_of(LIST)?, sent.id()?);
    let Some(question) = question_of(&id) else {
        let message = format!(
            "There is no question {}: ids are those that POST /journalQueries answers.",
            quoted(&id)
        );
        return Err(Reply::error(404, ErrorCode::ResourceNotFound, message));
    };
    sent.check_scope(question.topic())?;
    answer(&context, id, question, &page, None).await
}

async fn answer(
    context: &Context,
    id: String,
    mut question: Question,
    page: &Page,
    max_dollars: Option<f64>,
) -> Answer {
    let (mut token, mut skipped) = (page.after.as_deref(), 0);
    match &mut question {
        Question::Attempts(question) => question.most = page.most(),
        // Within a page of the reader, which may be longer than an answer.
        Question::Ledger(_) | Question::Series(_) => {
            if let Some((place, rest)) = token.map(|all| all.split_once('.').unwrap_or((all, ""))) {
                skipped = place.parse().map_err(|_| Reply::from(JournalError::Page))?;
                token = Some(rest).filter(|rest| !rest.is_empty());
            }
        }
    }
    let reply = context.journal_reader.ask(&question, token, max_dollars).await?;
    let JournalReply { reads: Reads { gigabytes, dollars }, progress } = reply;
    let status = match &progress {
        Progress::Answered(_) => Succeeded,
        Progress::Running => Running,
        Progress::TooDear => TooDear,
    };
    let mut query = JournalQuery::new(id, status, gigabytes, dollars);
    let Progress::Answered(mut answer) = progress else { return Ok(Reply::accepted(query)) };
    answer.lacks_first_successes &= wants_successes(&question);
    let counts = !matches!(answer.known, Known::Attempts(_));
    let next = answer.next.clone();
    let mut next = next.map(|next| if counts { format!("0.{next}") } else { next });
    query = query.answered(answer);
    let most = page.top().unwrap_or(usize::MAX);
    let left = [
        query.ledger.as_mut().map(|all| cut(all, skipped, most)),
        query.series.as_mut().map(|all| cut(all, skipped, most)),
    ];
    if let Some(place) = left.into_iter().flatten().flatten().next() {
        next = Some(format!("{place}.{}", token.unwrap_or_default()));
    }
    let url = format!("{}/journalQueries/{}", context.settings.manage_url, query.id);
    query.next_link = next.map(|next| page.next_link(&url, &next));
    Ok(Reply::ok(query))
}

/// Whether an answer may have first attempts that succeed.
fn wants_successes(question: &Question) -> bool {
    let Question::Attempts(AttemptsQuestion { failed, outcomes, .. }) = question else {
        return false;
    };
    !failed && (outcomes.is_empty() || outcomes.contains(&Outcome::Delivered))
}

/// Leaves so many entries behind those skipped, and no more than an answer has room for. Returns where the next
/// page begins.
fn cut<T: Serialize>(entries: &mut Vec<T>, skipped: usize, most: usize) -> Option<usize> {
    entries.drain(..skipped.min(entries.len()));
    let mut bytes = 0;
    let fit = entries.iter().take(most).take_while(|entry| {
        bytes += serde_json::to_vec(entry).map_or(0, |json| json.len());
        bytes <= BYTES_MAX
    });
    let count = fit.count();
    let is_last = entries.len() <= count;
    entries.truncate(count);
    (!is_last).then_some(skipped + count)
}

fn id_of(question: &Question) -> String {
    let json = serde_json::to_vec(&JournalQueryInput::from(question)).unwrap_or_default();
    BASE64_URL_SAFE_NO_PAD.encode(json)
}

/// Reads an id. Returns `None` for one that [`id_of`] does not make: the same question has one id.
fn question_of(id: &str) -> Option<Question> {
    if id.len() > ID_BYTES_MAX {
        return None;
    }
    let json = BASE64_URL_SAFE_NO_PAD.decode(id).ok()?;
    let document = serde_json::from_slice(&json).ok()?;
    let (_, question) = JournalQueryInput::read(&document, Timestamp::default()).ok()?;
    (id_of(&question) == id).then_some(question)
}
