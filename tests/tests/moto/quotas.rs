//! Checks in the emulator's own process that it refuses what AWS refuses.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use gridpost_stack::quotas::CHECKS;
use serde_json::{Value, json};

/// A trial in Python: the last that is taken, the first that is refused, and how.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// `{}` in a call is what differs between the two.
const ROWS: [Row; 42] = [
    ("send({})", "'x' * MIB", "'x' * (MIB + 1)", "shorter than 1048576"),
    ("send({})", "'x'", "''", "MissingParameter"),
    ("send({})", "'a\\t\\n\\r\\ufffd\\U0010ffff'", "'\\ufffe'", "InvalidMessageContents"),
    ("send('x', DelaySeconds={})", "900", "901", "DelaySeconds"),
    ("send('x', MessageAttributes=attributes({}))", "10", "11", "exceeds the allowed"),
    ("named({})", "'a.B-c_9'", "'AWS.a'", "attribute name"),
    ("named({})", "'a.b'", "'a..b'", "attribute name"),
    ("named({})", "'a' * 256", "'a' * 257", "attribute name"),
    ("typed({})", "'Number.int'", "'Integer'", "attribute type"),
    ("valued({})", "'1'", "''", "non-empty"),
    ("send('x', MessageGroupId={})", "'g/~' + 'x' * 125", "'x' * 129", "MessageGroupId"),
    ("send('x', MessageGroupId={})", "'a/b'", "'a b'", "MessageGroupId"),
    ("hide({})", "43_200", "43_201", "VisibilityTimeout"),
    ("hide(43_000, {})", "200", "201", "beyond the limit"),
    ("batch(['x'] * {})", "10", "11", "TooManyEntries"),
    ("batch(['x'] * {})", "1", "0", "EmptyBatch"),
    ("batch(['x' * (MIB // 2)] * {})", "2", "3", "BatchRequestTooLong"),
    ("ids('a', {})", "'b'", "'a'", "NotDistinct"),
    ("ids('a', {})", "'b-_9'", "'b.'", "InvalidBatchEntryId"),
    ("ids('a', {})", "'b' * 80", "'b' * 81", "InvalidBatchEntryId"),
    ("batch(['x', {}])", "'y'", "'\\x00'", "'1': ('InvalidMessageContents"),
    ("sqs('ReceiveMessage', {'WaitTimeSeconds': {}})", "20", "21", "WaitTimeSeconds"),
    ("publish(['x' * {}])", "(256 * KIB)", "(256 * KIB + 1)", "Message too long"),
    ("publish(['x' * 131_072] * {})", "2", "3", "BatchRequestTooLong"),
    ("publish([{}])", "'x'", "''", "Empty message"),
    (
        "sns('PublishBatch', [{'Id': {}, 'MessageBody': 'x'}])",
        "'a-_9'",
        "'a.'",
        "InvalidBatchEntryId",
    ),
    ("event(Detail='{\"a\":' + {} + '}')", "'1'", "'x'", "MalformedDetail"),
    ("event(Detail={})", "'{}'", "'[]'", "MalformedDetail"),
    ("event(DetailType={})", "'t' * 128", "'t' * 129", "InvalidArgument"),
    ("event(Source={})", "'s'", "''", "Source is a required"),
    ("event(Time=1, Detail=json.dumps({'a': 'x' * {}}))", "262_119", "262_120", "over the limit"),
    ("put({})", "ITEM_MAX - 4", "ITEM_MAX - 3", "Item size"),
    ("writes({})", "25", "26", "BatchWriteItem"),
    ("gets({})", "100", "101", "BatchGetItem"),
    ("transact({})", "100", "101", "equal to 100"),
    ("dynamodb('Query', {'FilterExpression': {}})", "'x' * 4096", "'x' * 4097", "Expression"),
    ("s3({}, {})", "'k' * 1024", "'k' * 1025", "KeyTooLongError"),
    ("s3('k', {'x-amz-meta-a': {}})", "'v' * 2047", "'v' * 2048", "MetadataTooLarge"),
    ("invocation({}, True) or invocation(6 * MIB)", "MIB", "MIB + 1", "too large"),
    ("response({})", "6 * MIB", "6 * MIB + 1", "exceeded maximum"),
    ("failures({})", "'m1'", "'m2'", "of no record"),
    ("gateway(240, {'a': {}}, 10 * MIB)", "'v' * 10_000", "'v' * 10_001", "Header Fields"),
];

/// Short names for what the rows call; then each row's two calls, and what came of them.
const DRIVER: &str = r"
import json, sys
from quotas import *
from quotas import sqs, s3

def send(body, **more): return sqs('SendMessage', {'MessageBody': body, **more})
def value(kind='String', value='v'): return {'DataType': kind, 'StringValue': value}
def attributes(count): return {f'a{n}': value() for n in range(count)}
def named(name): return send('x', MessageAttributes={name: value()})
def typed(kind): return send('x', MessageAttributes={'a': value(kind)})
def valued(text): return send('x', MessageAttributes={'a': value(value=text)})
def hide(seconds, age=None):
    return sqs('ChangeMessageVisibility', {'VisibilityTimeout': seconds}, lambda _receipt: age)
def entries(bodies): return [{'Id': str(n), 'MessageBody': body} for n, body in enumerate(bodies)]
def batch(bodies): return sqs('SendMessageBatch', {'Entries': entries(bodies)})
def ids(*ids): return sqs('DeleteMessageBatch', {'Entries': [{'Id': name} for name in ids]})
def publish(bodies): return sns('PublishBatch', entries(bodies))
def event(**more):
    return events('PutEvents', {'Entries': [{'Source': 's', 'DetailType': 't', 'Detail': '{}', **more}]})
def put(bytes): return dynamodb('PutItem', {'Item': {'pk': {'S': 'x' * bytes}, 'n': {'BOOL': True}}})
def writes(count):
    return dynamodb('BatchWriteItem', {'RequestItems': {'t': [{'PutRequest': {'Item': {}}}] * count}})
def gets(count): return dynamodb('BatchGetItem', {'RequestItems': {'t': {'Keys': [{}] * count}}})
def transact(count): return dynamodb('TransactWriteItems', {'TransactItems': [{'Put': {}}] * count})
def failures(name): return batch_response({'m1'}, {'batchItemFailures': [{'itemIdentifier': name}]})

def come_to(call, argument):
    answer = eval(call.replace('{}', argument, 1))
    return '' if answer in (None, (None, {})) else str(answer)

rows = json.load(sys.stdin)
json.dump([[come_to(call, most), come_to(call, beyond)] for call, most, beyond in rows], sys.stdout)
";

/// Runs a program that has `quotas.py` beside it; none of its input is the user's.
fn python(program: &str, input: &Value) -> Value {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("quotas.py"), CHECKS).expect("written");
    let mut python = Command::new("python3")
        .args(["-c", program])
        .env("PYTHONPATH", folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut stdin = python.stdin.take().expect("piped");
    stdin.write_all(input.to_string().as_bytes()).expect("written");
    drop(stdin);
    let output = python.wait_with_output().expect("it ends");
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn every_limit_takes_its_last_value_and_refuses_the_next() {
    let rows: Vec<Value> =
        ROWS.iter().map(|(call, most, beyond, _)| json!([call, most, beyond])).collect();
    let came = python(DRIVER, &json!(rows));
    for (index, (call, most, beyond, want)) in ROWS.iter().enumerate() {
        assert_eq!(came[index][0], "", "{call} with {most}");
        let refused = came[index][1].as_str().unwrap_or_default();
        assert!(refused.contains(want), "{call} with {beyond}: {refused:?}, not {want}");
    }
}

#[test]
fn a_batch_response_fails_whole_as_documented() {
    let table = [
        (json!(null), false),
        (json!({}), false),
        (json!({"batchItemFailures": null}), false),
        (json!({"batchItemFailures": []}), false),
        (json!("{\"batchItemFailures\":[{\"itemIdentifier\":\"m1\"}]}"), false),
        (json!({"batchItemFailures": [{"itemIdentifier": ""}]}), true),
        (json!({"batchItemFailures": [{"itemIdentifier": null}]}), true),
        (json!({"batchItemFailures": [{"itemidentifier": "m1"}]}), true),
        (json!({"batchItemFailures": [{"itemIdentifier": "m2"}]}), true),
        (json!("no JSON"), true),
        (json!([]), true),
    ];
    let program = "import json, sys; from quotas import batch_response; \
                       json.dump([batch_response({'m1'}, one) for one in json.load(sys.stdin)], sys.stdout)";
    let answers: Vec<&Value> = table.iter().map(|(answer, _)| answer).collect();
    let came = python(program, &json!(answers));
    for (index, (answer, fails)) in table.iter().enumerate() {
        assert_eq!(came[index].is_string(), *fails, "{answer}: {}", came[index]);
    }
}
