//! The binary `gridpost`: reads the command line, runs it, exits 0 (done), 1 (failed) or 2 (misuse).

use std::process::ExitCode;

use gridpost_cli::arguments::Arguments;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::read();
    let json = arguments.json;
    match gridpost_cli::run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => gridpost_ops::failure::report(&err, json),
    }
}
