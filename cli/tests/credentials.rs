//! What commands do where the AWS configuration gives no credentials, and that the others don't
//! look.

use std::{
    fs,
    process::{Command, Output},
};

use tempfile::TempDir;

const ON_AWS: &str = "https://a1.execute-api.eu-north-1.amazonaws.com";

/// Runs the program with this AWS configuration as its home folder's.
fn run(config: &str, line: &str) -> (TempDir, Output) {
    let home = tempfile::tempdir().expect("a folder");
    fs::create_dir(home.path().join(".aws")).expect("a folder");
    fs::write(home.path().join(".aws/config"), config).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gridpost"));
    command.env_clear().env("HOME", home.path()).env("AWS_EC2_METADATA_DISABLED", "true");
    command.current_dir(home.path()).args(line.split_whitespace());
    let output = command.output().expect("it runs");
    (home, output)
}

#[test]
fn a_command_says_how_to_sign_in() {
    let config = "[default]\nsso_session = dev\nsso_account_id = 012345678901\nsso_role_name = R\n\
                  [sso-session dev]\nsso_region = us-east-1\n\
                  sso_start_url = https://d-abc.awsapps.com/start\n";
    let (_home, output) = run(config, &format!("topic list --manage-url {ON_AWS}"));
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), [].as_slice()));
    let want = "error: AWS credentials could not be had: profile default: \
                failed to load the cached SSO token; \
                if the session has expired, run: aws sso login --profile default\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), want);
}

#[test]
fn what_a_process_of_the_profile_writes_controls_no_terminal() {
    let config = "[default]\ncredential_process = printf '\\033[31mno\\nerror: none' >&2; exit 1\n";
    for json in ["", "--json "] {
        let (_home, output) = run(config, &format!("{json}topic list --manage-url {ON_AWS}"));
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1), "{told}");
        assert!(told.contains("u001b[31mno error: none;") && !told.contains('\x1b'), "{told}");
    }
}

#[test]
fn commands_without_aws_look_for_no_credentials() {
    let config = "[default]\ncredential_process = touch \"$HOME/was-run\"\n";
    for (line, is_run) in [
        ("--help".to_owned(), false),
        ("topic list --manage-url http://127.0.0.1:9".to_owned(), false),
        (format!("topic list --manage-url {ON_AWS}"), true),
    ] {
        let (home, _) = run(config, &line);
        assert_eq!(home.path().join("was-run").exists(), is_run, "{line}");
    }
}
