//! A command's exit code says what came of it, also where nothing reads what it prints.

use std::{
    io::{Read, Write, pipe},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
};

/// What the program ends with, where the readers of both its pipes are gone.
fn code_of(line: &str) -> Option<i32> {
    let folder = tempfile::tempdir().expect("a folder");
    let [stdout, stderr] = [(), ()].map(|()| pipe().expect("a pipe").1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_gridpost"));
    command.env_clear().current_dir(folder.path()).args(line.split_whitespace());
    let ended = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).status();
    ended.expect("it runs").code()
}

/// A manage API that counts one dead letter, and fails at everything else. It ends with the test.
fn failing_api() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    thread::spawn(move || listener.incoming().flatten().for_each(answer));
    url
}

fn answer(mut stream: TcpStream) {
    let mut head = vec![0; 16_384];
    let read = stream.read(&mut head).unwrap_or(0);
    let counts = String::from_utf8_lossy(&head[..read]).contains("/deadLetters:count");
    let count = r#"{"events":1,"redrivenEvents":0,"byReason":{},"byEventType":{},"unreadable":0}"#;
    let (status, body) = if counts { (200, count) } else { (500, "{}") };
    let answer = format!(
        "HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes());
    // What is still unread would reset the connection before its answer is read.
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read(&mut head);
}

#[test]
fn a_failure_is_one_whether_it_is_read_or_not() {
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/ops/src/doctor/plan.json");
    let api = failing_api();
    let table = [
        (format!("doctor --plan {plan}"), 0),
        (format!("doctor --plan {plan} --account-concurrency 10"), 1),
        (format!("--manage-url {api} dead-letter purge --topic t --subscription s --dry-run"), 0),
        (format!("--manage-url {api} dead-letter purge --topic t --subscription s --yes"), 1),
        (format!("--manage-url {api} topic list"), 1),
        ("--manage-url elsewhere topic list".to_owned(), 2),
    ];
    for (line, want) in table {
        for flags in ["", "--json "] {
            assert_eq!(code_of(&format!("{flags}{line}")), Some(want), "{flags}{line}");
        }
    }
}
