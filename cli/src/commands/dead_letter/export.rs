//! `gridpost dead-letter export`: dead letters with their events, one JSON document in each line.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::{Filter, Sent, found};
use crate::failure::Misuse;
use crate::manage_api::ManageApi;
use crate::output::{Output, count, text_at};

/// Dead letters that are fetched at the same time.
const AT_ONCE: usize = 8;

/// Which dead letters, and where to.
#[derive(Args, Debug)]
pub struct ExportArguments {
    #[command(flatten)]
    filter: Filter,

    #[command(flatten)]
    sent: Sent,

    /// The new file, one JSON document in each line (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    to_file: PathBuf,

    /// At most so many
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
    output: Output,
) -> anyhow::Result<()> {
    let ExportArguments { filter, sent, to_file, top } = arguments;
    let is_stdout = to_file == Path::new("-");
    let mut file = open(to_file)?;
    let letters = found(api, filter, *sent, *top).await?;
    let whole = letters.into_iter().map(|letter| {
        let api = api.clone();
        async move { whole(&api, &letter).await }
    });
    let whole = stream::iter(whole).buffered(AT_ONCE);
    let mut whole = std::pin::pin!(whole);
    let mut written = 0;
    while let Some(letter) = whole.next().await {
        write_line(&mut *file, &letter?)
            .with_context(|| format!("{} cannot be written", to_file.display()))?;
        written += 1;
    }
    file.flush().with_context(|| format!("{} cannot be written", to_file.display()))?;
    if !is_stdout {
        let document = json!({"events": written, "file": to_file.display().to_string()});
        let letters = count(written, "dead letter");
        output.print(&document, |_| format!("{letters} written to {}", to_file.display()));
    }
    Ok(())
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
