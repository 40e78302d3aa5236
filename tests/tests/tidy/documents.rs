//! Documents of the resource API are read and written by their types, in `shared/api` alone.

use super::{code, files, none, read, root};

/// Files that read or write other documents member by member, and whose documents these are.
const OTHERS: &[(&str, &str)] = &[
    ("cli/ops/src/doctor.rs", "Terraform's plans"),
    ("cli/ops/src/doctor/account.rs", "AWS's answers"),
    ("cli/ops/src/doctor/aws.rs", "AWS's answers"),
    ("cli/ops/src/doctor/cdn.rs", "Terraform's plans"),
    ("cli/ops/src/doctor/deployer.rs", "IAM's policies"),
    ("cli/ops/src/doctor/names.rs", "Terraform's plans"),
    ("cli/ops/src/doctor/plan.rs", "Terraform's plans"),
    ("cli/ops/src/doctor/queues.rs", "Terraform's plans"),
    ("cli/ops/src/doctor/rules.rs", "Terraform's plans"),
    ("cli/ops/src/doctor/secrets.rs", "Terraform's plans, IAM's policies"),
    ("cli/ops/src/doctor/spelling.rs", "Terraform's plans"),
    ("cli/ops/src/failure.rs", "errors of any server"),
    ("cli/ops/src/publish.rs", "events"),
    ("cli/ops/src/receiver.rs", "webhooks' bodies"),
    ("cli/ops/src/rollout/aws.rs", "AWS's answers"),
    ("cli/ops/src/subscription/send_test.rs", "events"),
    ("cli/ops/src/verify/probe_topic.rs", "events"),
    ("cli/ops/src/verify/queue.rs", "SQS's requests"),
    ("cli/ops/src/verify/webhook.rs", "events"),
    ("cli/src/commands/console.rs", "the command's own report"),
    ("cli/src/commands/deployment.rs", "Terraform's outputs, and the command's own report"),
    ("cli/src/commands/dev.rs", "the command's own report"),
    ("cli/src/commands/dev/in_process.rs", "`local.json`"),
    ("cli/src/commands/doctor.rs", "the command's own report"),
    ("cli/src/commands/export.rs", "the command's own report"),
    ("cli/src/commands/rollout.rs", "the command's own report"),
    ("cli/src/commands/sas.rs", "the command's own report"),
    ("cli/src/commands/up.rs", "the command's own report"),
    ("cli/stack/src/build.rs", "cargo's metadata"),
    ("cli/stack/src/demonstration.rs", "events"),
    ("cli/stack/src/samples.rs", "Lambda's events"),
    ("cli/stack/src/terraform.rs", "Terraform's plans"),
    ("cli/stack/src/watched.rs", "AWS's requests"),
    ("functions/dead-letter/src/notify.rs", "events"),
    ("functions/manage/src/handshake.rs", "validation events"),
    ("functions/programs/src/bin/wake.rs", "Lambda's events"),
    ("server/src/counts.rs", "counts of `gridpost dev`"),
    ("server/src/emulated.rs", "AWS's answers"),
    ("server/src/http.rs", "API Gateway's answers"),
];

/// Counts what reads or writes JSON member by member.
fn untyped(code: &str) -> usize {
    let indexed = code.match_indices("[\"").filter(|(at, _)| {
        let is_indexed = |before: char| before.is_alphanumeric() || before == ')' || before == ']';
        let (before, after) = (&code[..*at], &code[at + 2..]);
        let is_one = after.find('"').is_some_and(|end| after[end + 1..].starts_with(']'));
        is_one && before.ends_with(is_indexed)
    });
    let named = ["json!", ".pointer(", "text_at("].map(|word| code.matches(word).count());
    indexed.count() + named.iter().sum::<usize>()
}

#[test]
fn documents_of_the_api_are_typed() {
    let sources = ["cli", "functions", "server"].iter().flat_map(|folder| files(folder, &[".rs"]));
    let mut problems = Vec::new();
    let mut met = Vec::new();
    for path in sources {
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        let is_test =
            name.ends_with("tests.rs") || name.contains("/tests/") || name.contains("testkit");
        let count = untyped(&code(&read(&path)));
        match OTHERS.iter().any(|(other, _)| *other == name) {
            _ if is_test => {}
            true if count > 0 => met.push(name),
            _ if count == 0 => {}
            _ => problems
                .push(format!("{name} reads or writes JSON member by member in {count} places")),
        }
    }
    for (name, documents) in OTHERS.iter().filter(|(name, _)| !met.iter().any(|one| one == name)) {
        problems.push(format!("{name} reads no {documents} any more"));
    }
    none(problems);
}

#[test]
fn what_is_untyped_is_counted() {
    for (code, count) in [
        (r#"let a = json!({"a": document["a"]["b"]});"#, 3),
        (r#"text_at(of, "/a") + of.pointer("/b")"#, 2),
        (r#"for name in ["a"] { f(&["b"]) } let a = rows["a", "b"];"#, 0),
    ] {
        assert_eq!(untyped(code), count, "{code}");
    }
}
