//! `gridpost dead-letter export`: dead letters with their events, one JSON document in each line.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use futures::{StreamExt, stream};
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};

use super::{Filter, Sent, found};
use crate::commands::if_there;
use crate::failure::Misuse;
use crate::manage_api::ManageApi;
use crate::output::{Output, count, text_at};
use crate::progress::Progress;

/// Dead letters that are fetched at the same time.
const AT_ONCE: usize = 8;

/// Which dead letters, and where to.
#[derive(Args, Debug)]
pub struct ExportArguments {
    #[command(flatten)]
    pub(super) filter: Filter,

    #[command(flatten)]
    sent: Sent,

    /// File to create, with one JSON document per line (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    to_file: PathBuf,

    /// Maximum number to export
    #[arg(long, value_name = "COUNT", default_value_t = usize::MAX, hide_default_value = true)]
    top: usize,
}

/// Runs `gridpost dead-letter export`.
///
/// # Errors
///
/// A refusal by the server, a transport failure, or a file that is there already or can't be written.
pub(super) async fn run(
    arguments: &ExportArguments,
    api: &ManageApi,
    now: Timestamp,
    output: Output,
) -> anyhow::Result<()> {
    let ExportArguments { filter, sent, to_file, top } = arguments;
    let is_stdout = to_file == Path::new("-");
    let mut file = open(to_file)?;
    let letters = found(api, filter, *sent, now, *top).await?;
    let whole = letters.into_iter().map(|letter| {
        let api = api.clone();
        async move { whole(&api, &letter).await }
    });
    let whole = stream::iter(whole).buffered(AT_ONCE);
    let mut whole = std::pin::pin!(whole);
    let (mut written, mut gone) = (0, 0);
    while let Some(letter) = whole.next().await {
        let Some(letter) = if_there(letter)? else {
            gone += 1;
            continue;
        };
        write_line(&mut *file, &letter)
            .with_context(|| format!("{} cannot be written", to_file.display()))?;
        written += 1;
    }
    file.flush().with_context(|| format!("{} cannot be written", to_file.display()))?;
    if is_stdout {
        // The letters have standard output for themselves.
        told_gone(gone)
            .into_iter()
            .for_each(|told| Progress::on_stderr().line(&format!("! {told}")));
        return Ok(());
    }
    let file = to_file.display().to_string();
    let document = json!({"events": written, "gone": gone, "file": file});
    let letters = format!("{} written to {file}", count(written, "dead letter"));
    let told = std::iter::once(letters).chain(told_gone(gone)).collect::<Vec<_>>().join("\n");
    output.print(&document, |_| told);
    Ok(())
}

/// What was deleted while it was exported, where something was.
fn told_gone(gone: u64) -> Option<String> {
    let letters = || format!("{} gone since the list was made", count(gone, "dead letter"));
    (gone > 0).then(letters)
}

/// What is written to. A file that is there stays as it is: it may be the only copy of what was purged.
fn open(path: &Path) -> anyhow::Result<Box<dyn Write + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout())));
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => Ok(Box::new(BufWriter::new(file))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Misuse(format!("{} is there already: name a new file", path.display())).into())
        }
        Err(error) => Err(error).with_context(|| format!("{} cannot be made", path.display())),
    }
}

/// A dead letter with its event; what can't be read is told as the list tells it.
async fn whole(api: &ManageApi, listed: &Value) -> anyhow::Result<Value> {
    let [topic, name, id] =
        ["/topic", "/eventSubscription", "/id"].map(|pointer| text_at(listed, pointer));
    if listed.get("problem").is_some() {
        return Ok(listed.clone());
    }
    let mut letter = api.dead_letter(topic, name, id).await?;
    letter["topic"] = json!(topic);
    letter["eventSubscription"] = json!(name);
    Ok(letter)
}

fn write_line(to: &mut dyn Write, letter: &Value) -> io::Result<()> {
    writeln!(to, "{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::dead_letter::Chosen;
    use crate::manage_api::fake::FakeApi;

    #[tokio::test]
    async fn what_is_purged_meanwhile_is_told_and_ends_nothing() {
        let letters = "/topics/t/eventSubscriptions/s/deadLetters";
        let list = json!({"value": [{"id": "a"}, {"id": "gone"}, {"id": "b"}]});
        let letter = |id: &str| json!({"id": id, "event": "{}"});
        let no_such = json!({"error": {"code": "ResourceNotFound", "message": "gone"}});
        let api = FakeApi::answering(&[
            (&format!("GET {letters}/a"), 200, letter("a")),
            (&format!("GET {letters}/b"), 200, letter("b")),
            (&format!("GET {letters}/gone"), 404, no_such),
            (&format!("GET {letters}"), 200, list),
        ])
        .await;
        let folder = tempfile::tempdir().expect("a folder");
        let chosen = Chosen {
            from: None,
            to: None,
            since: None,
            reason: None,
            event_type: None,
            event_id: None,
        };
        let [topic, subscription] = ["t", "s"].map(|name| Some(name.to_owned()));
        let arguments = ExportArguments {
            filter: Filter { topic, subscription, chosen },
            sent: Sent { redriven: false, open: false },
            to_file: folder.path().join("letters.jsonl"),
            top: usize::MAX,
        };
        let manage = ManageApi::connect(&api.url()).await.expect("an API");
        run(&arguments, &manage, Timestamp::from_millis(0), Output::new(true))
            .await
            .expect("exported");
        let text = std::fs::read_to_string(&arguments.to_file).expect("read");
        let ids = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ids: Vec<_> = ids.map(|letter| letter["id"].clone()).collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!(told_gone(1).as_deref(), Some("1 dead letter gone since the list was made"));
        assert_eq!(told_gone(0), None);
    }

    #[test]
    fn a_letter_is_a_line_and_a_file_that_is_there_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("letters.jsonl");
        let mut file = open(&path).expect("new");
        // The event stays a text: numbers in it keep their digits.
        for event in [r#"{"n":1.50}"#, "a\nb"] {
            write_line(&mut *file, &json!({"id": "i", "event": event})).expect("written");
        }
        drop(file);
        let text = std::fs::read_to_string(&path).expect("read");
        let read: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let events: Vec<_> = read.iter().filter_map(|letter| letter["event"].as_str()).collect();
        assert_eq!(events, [r#"{"n":1.50}"#, "a\nb"]);
        let Err(refused) = open(&path) else { panic!("it is overwritten") };
        assert!(refused.is::<Misuse>(), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), text);
    }
}
