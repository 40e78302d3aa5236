//! moto's server: one for all tests of this process.

use std::path::Path;

use gridpost_tests::packages::{self, Server};
use tokio::sync::OnceCell;

const REQUIREMENTS: &str = include_str!("../../moto/requirements.txt");
const PROGRAM: &str = include_str!("../../moto/server.py");

/// The server, or why it does not run: what failed once is not tried for each test again.
static SERVER: OnceCell<Result<Server, String>> = OnceCell::const_new();

/// The server's URL.
pub(super) async fn url() -> &'static str {
    let start = async || {
        let logs = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let server = packages::serve("moto", REQUIREMENTS, PROGRAM, logs).await;
        server.map_err(|error| format!("{error:#}"))
    };
    match SERVER.get_or_init(start).await {
        Ok(server) => &server.url,
        Err(error) => panic!("there is no moto to test on: {error}"),
    }
}
