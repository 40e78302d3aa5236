//! `gridpost dead-letter export`: writes dead letters with their events, one JSON document in each line.

use std::{
    fs::{self, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;
use futures::{StreamExt, stream};
use gridpost_api::dead_letter::{DeadLetter, DeadLetterContent, DeadLetterShown};
use gridpost_core::time::Timestamp;
use serde::Serialize;

use super::{Filter, Letters, Sent, Unread, found};
use crate::{
    commands::{Owned, SubscriptionArgs},
    output::{Output, count},
};
use gridpost_ops::{
    failure::Misuse, given::count_in, lookup::if_there, manage_api::ManageApi, output::shown,
    progress::Progress,
};

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
    #[arg(long, visible_alias = "top", value_name = "COUNT", value_parser = count_in::<usize>(..))]
    limit: Option<usize>,
}

/// Also fails when a file is there already. Dead letters or event subscriptions that can't be read, or
/// not whole, fail it after the rest was written.
pub(super) async fn run(
    arguments: &ExportArguments,
    api: &ManageApi,
    now: Timestamp,
    output: Output,
) -> anyhow::Result<()> {
    let ExportArguments { filter, sent, to_file, limit } = arguments;
    let mut file = open(to_file)?;
    let ended = async {
        let limit = limit.unwrap_or(usize::MAX);
        let Letters { letters, unread, .. } = found(api, filter, *sent, now, limit).await?;
        let mut exported = Exported::to(to_file, unread);
        let done = exported.write(api, letters, &mut *file).await;
        let done = done.and(file.flush().with_context(|| exported.not_written()));
        exported.tell(output);
        done.and_then(|()| exported.check())
    };
    let ended = ended.await;
    if ended.is_err() {
        remove_if_empty(to_file);
    }
    ended
}

/// An empty file would only be in the way of the next try, which says so where it can't be removed.
fn remove_if_empty(path: &Path) {
    if !is_stdout(path) && fs::metadata(path).is_ok_and(|file| file.len() == 0) {
        let _ = fs::remove_file(path);
    }
}

/// The result of an export.
#[derive(Debug, Default, Serialize)]
struct Exported {
    #[serde(rename = "events")]
    written: u64,
    /// Deleted since the list was made.
    gone: u64,
    unreadable: u64,
    /// With a part of their events: the manage API cuts what is too long for its answer.
    cut: u64,
    #[serde(flatten)]
    unread: Unread,
    file: String,
}

impl Exported {
    fn to(file: &Path, unread: Unread) -> Self {
        Self { file: file.display().to_string(), unread, ..Self::default() }
    }

    fn is_stdout(&self) -> bool {
        is_stdout(Path::new(&self.file))
    }

    fn not_written(&self) -> String {
        format!("{} cannot be written", self.file)
    }

    /// Writes the letters with their events, in their order. What can't be read is a line too, which says
    /// where it is and why; so is what was cut, which says that it is.
    async fn write(
        &mut self,
        api: &ManageApi,
        letters: Vec<Owned<DeadLetter>>,
        to: &mut (dyn Write + Send),
    ) -> anyhow::Result<()> {
        let mut whole = std::pin::pin!(
            stream::iter(letters).map(|letter| whole(api.clone(), letter)).buffered(AT_ONCE)
        );
        while let Some(letter) = whole.next().await {
            let Some(letter) = if_there(letter)? else {
                self.gone += 1;
                continue;
            };
            write_line(to, &letter).with_context(|| self.not_written())?;
            let Owned { document: DeadLetterShown { letter, is_event_cut, .. }, .. } = &letter;
            let sum = match (&letter.content, is_event_cut) {
                (DeadLetterContent::Unreadable { .. }, _) => &mut self.unreadable,
                (DeadLetterContent::Record(_), Some(true)) => &mut self.cut,
                (DeadLetterContent::Record(_), _) => &mut self.written,
            };
            *sum += 1;
        }
        Ok(())
    }

    fn tell(&self, output: Output) {
        let gone = told_gone(self.gone).into_iter();
        if self.is_stdout() {
            // The letters have standard output for themselves.
            gone.for_each(|told| Progress::on_stderr().line(&format!("! {told}")));
            return;
        }
        let letters = format!("{} written to {}", count(self.written, "dead letter"), self.file);
        let told = std::iter::once(letters).chain(gone).collect::<Vec<_>>().join("\n");
        output.tell(self, |_| told);
    }

    /// Fails the command where something is missing: it is no copy of what a purge would delete.
    fn check(&self) -> anyhow::Result<()> {
        let problems = [self.told_unreadable(), self.told_cut(), self.unread.told()];
        let problems: Vec<_> = problems.into_iter().flatten().collect();
        anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
        Ok(())
    }

    fn place(&self) -> &'static str {
        if self.is_stdout() { "the output" } else { "the file" }
    }

    fn told_unreadable(&self) -> Option<String> {
        let place = self.place();
        match self.unreadable {
            0 => None,
            1 => Some(format!("1 object or record can't be read: its events are not in {place}")),
            many => Some(format!(
                "{many} objects or records can't be read: their events are not in {place}"
            )),
        }
    }

    fn told_cut(&self) -> Option<String> {
        let place = self.place();
        match self.cut {
            0 => None,
            1 => Some(format!(
                "1 event is cut: {place} has its beginning, and its object in S3 (`objectName`) all of it"
            )),
            many => Some(format!(
                "{many} events are cut: {place} has their beginnings, and their objects in S3 \
                 (`objectName`) all of them"
            )),
        }
    }
}

/// Says what was deleted while it was exported, if anything was.
fn told_gone(gone: u64) -> Option<String> {
    let letters = || format!("{} gone since the list was made", count(gone, "dead letter"));
    (gone > 0).then(letters)
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Opens the file to write to. An existing file stays as it is: it may be the only copy of what was
/// purged.
fn open(path: &Path) -> anyhow::Result<Box<dyn Write + Send>> {
    if is_stdout(path) {
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

/// Reads a dead letter with its event. One that was unreadable in the list stays as it was listed.
async fn whole(
    api: ManageApi,
    Owned { document, owner }: Owned<DeadLetter>,
) -> anyhow::Result<Owned<DeadLetterShown>> {
    if matches!(document.content, DeadLetterContent::Unreadable { .. }) {
        let document = DeadLetterShown { letter: document, event: None, is_event_cut: None };
        return Ok(Owned { document, owner });
    }
    let (SubscriptionArgs { topic, subscription }, id) = (&owner, &document.id);
    let read = api.dead_letter(topic, subscription, id).await;
    let document = read.with_context(|| format!("{owner}: the dead letter {id}"))?;
    Ok(Owned { document, owner })
}

fn write_line(to: &mut (dyn Write + Send), letter: &impl Serialize) -> anyhow::Result<()> {
    Ok(writeln!(to, "{}", shown(&serde_json::to_string(letter)?))?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::commands::{Scope, dead_letter::Chosen};
    use gridpost_ops::testkit::{
        FakeApi,
        documents::{dead_letter, list},
    };

    fn listed(document: Value) -> Owned<DeadLetter> {
        let owner = SubscriptionArgs { topic: "t".to_owned(), subscription: "s".to_owned() };
        Owned { document: serde_json::from_value(document).expect("whole"), owner }
    }

    fn letter(id: &str) -> Value {
        dead_letter(&json!({ "id": id }))
    }

    fn to_file(folder: &tempfile::TempDir) -> ExportArguments {
        let chosen = Chosen {
            from: None,
            to: None,
            since: None,
            reason: None,
            event_type: None,
            event_id: None,
        };
        let [topic, subscription] = ["t", "s"].map(|name| Some(name.to_owned()));
        ExportArguments {
            filter: Filter { scope: Scope { topic, subscription }, chosen },
            sent: Sent { redriven: false, open: false },
            to_file: folder.path().join("letters.jsonl"),
            limit: None,
        }
    }

    /// One is unreadable when it is listed, another one since then.
    #[tokio::test]
    async fn what_can_not_be_read_is_counted_apart_and_fails() {
        let letters = "/topics/t/eventSubscriptions/s/deadLetters";
        let row = |id: &str| json!({"id": id, "objectName": "o", "problem": "it is archived"});
        let list = list(&[row("a"), letter("b")]);
        let api = FakeApi::answering(&[
            (&format!("GET {letters}/b"), 200, row("b")),
            (&format!("GET {letters}"), 200, list),
        ])
        .await;
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = to_file(&folder);
        let manage = ManageApi::connect(&api.url()).await.expect("an API");
        let now = Timestamp::from_millis(0);
        let failed = run(&arguments, &manage, now, Output::new(true)).await.expect_err("no event");
        let want = "2 objects or records can't be read: their events are not in the file";
        assert_eq!(failed.to_string(), want);
        let text = std::fs::read_to_string(&arguments.to_file).expect("read");
        assert_eq!(text.matches("it is archived").count(), 2, "{text}");
        let mut exported = Exported::to(Path::new("f"), Unread::default());
        let letters = vec![listed(row("a"))];
        exported.write(&manage, letters, &mut Vec::<u8>::new()).await.expect("written");
        let want =
            json!({"events": 0, "gone": 0, "unreadable": 1, "cut": 0, "failed": [], "file": "f"});
        assert_eq!(json!(exported), want);
        let told = exported.check().expect_err("no event").to_string();
        assert_eq!(told, "1 object or record can't be read: its events are not in the file");
    }

    /// A purge would delete the only whole one.
    #[tokio::test]
    async fn a_cut_event_is_no_copy_and_fails() {
        let letters = "/topics/t/eventSubscriptions/s/deadLetters";
        let shown = |cut: bool| dead_letter(&json!({"event": "{", "isEventCut": cut}));
        let list = list(&[letter("cut"), letter("whole")]);
        let api = FakeApi::answering(&[
            (&format!("GET {letters}/cut"), 200, shown(true)),
            (&format!("GET {letters}/whole"), 200, shown(false)),
            (&format!("GET {letters}"), 200, list),
        ])
        .await;
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = to_file(&folder);
        let manage = ManageApi::connect(&api.url()).await.expect("an API");
        let now = Timestamp::from_millis(0);
        let failed = run(&arguments, &manage, now, Output::new(true)).await.expect_err("cut");
        let told = failed.to_string();
        assert!(told.starts_with("1 event is cut: the file has its beginning"), "{told}");
        let text = std::fs::read_to_string(&arguments.to_file).expect("read");
        assert_eq!(text.matches("\"isEventCut\":true").count(), 1, "{text}");
        let mut exported = Exported::to(Path::new("f"), Unread::default());
        let letters = ["cut", "whole", "cut"].map(|id| listed(letter(id))).into();
        exported.write(&manage, letters, &mut Vec::<u8>::new()).await.expect("written");
        let document = json!(exported);
        assert_eq!((&document["events"], &document["cut"]), (&json!(1), &json!(2)));
        let told = exported.check().expect_err("cut").to_string();
        assert!(told.starts_with("2 events are cut: "), "{told}");
    }

    #[tokio::test]
    async fn a_failure_leaves_no_empty_file_in_the_way_of_the_next_try() {
        let path = "GET /topics/t/eventSubscriptions/s/deadLetters ";
        // The list is refused, or its only letter.
        for rows in [Vec::new(), vec![(path, 200, list(&[letter("a")]))]] {
            let api = FakeApi::answering(&rows).await;
            let folder = tempfile::tempdir().expect("a folder");
            let arguments = to_file(&folder);
            let manage = ManageApi::connect(&api.url()).await.expect("an API");
            let export = async || {
                let now = Timestamp::from_millis(0);
                run(&arguments, &manage, now, Output::new(true)).await.expect_err("refused")
            };
            let refused = export().await;
            assert!(!refused.is::<Misuse>(), "{refused}");
            assert!(!arguments.to_file.exists(), "{refused}");
            // One that was there before stays, and nothing is asked for it.
            std::fs::write(&arguments.to_file, "").expect("written");
            assert!(export().await.is::<Misuse>());
            assert!(arguments.to_file.exists());
        }
    }

    #[tokio::test]
    async fn what_is_purged_meanwhile_is_told_and_ends_nothing() {
        let letters = "/topics/t/eventSubscriptions/s/deadLetters";
        let list = list(&["a", "gone", "b"].map(letter));
        let shown = |id: &str| dead_letter(&json!({"id": id, "event": "{}"}));
        let no_such = json!({"error": {"code": "ResourceNotFound", "message": "gone"}});
        let api = FakeApi::answering(&[
            (&format!("GET {letters}/a"), 200, shown("a")),
            (&format!("GET {letters}/b"), 200, shown("b")),
            (&format!("GET {letters}/gone"), 404, no_such),
            (&format!("GET {letters}"), 200, list),
        ])
        .await;
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = to_file(&folder);
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
