//! `gridpost token`: who may use the manage API of `gridpost serve`; and `gridpost healthcheck`, by the same socket.

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use gridpost_api::token::{NewToken, Token, TokenInput, TokenList};
use gridpost_core::access::Role;
use gridpost_server::{FolderTokens, socket_path};
use reqwest::{Client, Method};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{one_of_names, serve::Place};
use crate::output::{self, Output};
use gridpost_ops::{failure::Refusal, progress::Progress};

/// What to do with tokens.
#[derive(Subcommand, Debug)]
pub enum TokenCommand {
    /// Make a token for the manage API, and print it: it is not shown again
    Create(CreateArguments),
    /// List the tokens, without their secrets
    List(Place),
    /// Make a token count no more, at once
    Revoke {
        /// The token's name
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

/// A token to be made.
#[derive(Args, Debug)]
pub struct CreateArguments {
    /// Name, which the log has beside each change: 1 to 64 letters, digits, -, _ and .
    name: String,

    /// What it allows: to see (read), also to decide what becomes of deliveries (operator), also to change topics
    /// and event subscriptions and to see keys and secrets (admin)
    #[arg(long, value_parser = one_of_names::<Role>())]
    role: Role,

    /// Only these topics: names with commas between them, in which * means any characters [default: all]
    #[arg(long, value_name = "NAMES")]
    topics: Option<String>,

    #[command(flatten)]
    place: Place,
}

/// The answer of a revocation.
#[derive(Serialize)]
struct Revoked<'n> {
    name: &'n str,
}

/// The answer of a health check.
#[derive(Serialize)]
struct Ready {
    ready: bool,
}

/// Runs `gridpost token`.
pub async fn run(command: TokenCommand, output: Output) -> anyhow::Result<()> {
    match command {
        TokenCommand::Create(CreateArguments { name, role, topics, place }) => {
            let input = serde_json::to_value(TokenInput { name, role, topics })?;
            let made: Value = Tokens::of(&place).await?.send(Method::POST, "", &input).await?;
            let NewToken { about, token } = serde_json::from_value(made.clone())?;
            let word = format!(
                "· {}: {} of {}; it is not shown again",
                about.name, about.role, about.topics
            );
            Progress::on_stderr().line(&word);
            output.print(&made, |_| token.expose().to_owned());
        }
        TokenCommand::List(place) => {
            let all: TokenList =
                Tokens::of(&place).await?.send(Method::GET, "", &Value::Null).await?;
            output.print(&serde_json::to_value(&all)?, |_| list(&all.value));
        }
        TokenCommand::Revoke { name, place } => {
            let rest = format!("/{name}");
            Tokens::of(&place).await?.send::<Value>(Method::DELETE, &rest, &Value::Null).await?;
            let revoked = serde_json::to_value(Revoked { name: &name })?;
            output.print(&revoked, |_| format!("{name} counts no more"));
        }
    }
    Ok(())
}

fn list(all: &[Token]) -> String {
    if all.is_empty() {
        return "there is no token; `gridpost token create` makes one".to_owned();
    }
    let row = |Token { name, role, topics, created_time }: &Token| {
        [name.clone(), role.to_string(), topics.clone(), created_time.to_string()]
    };
    output::table(["NAME", "ROLE", "TOPICS", "CREATED"], all.iter().map(row))
}

/// The tokens of a folder: through the process that has it, or by the folder itself.
enum Tokens {
    Process(Client),
    Folder(FolderTokens),
}

impl Tokens {
    async fn of(place: &Place) -> anyhow::Result<Self> {
        if let Some(client) = running(place).await? {
            return Ok(Self::Process(client));
        }
        place.make()?;
        let tokens = FolderTokens::open(&place.data, place.secrets_keys()?);
        let tokens = tokens.with_context(|| format!("the tokens of {}", place.data.display()))?;
        Ok(Self::Folder(tokens))
    }

    async fn send<T: DeserializeOwned>(
        self,
        method: Method,
        rest: &str,
        document: &Value,
    ) -> anyhow::Result<T> {
        let body = document.to_string();
        let (status, text) = match self {
            Self::Process(client) => {
                let sent = client.request(method, format!("{BASE}/tokens{rest}")).body(body);
                let answer = sent.send().await.context("the process gave no answer")?;
                (answer.status().as_u16(), answer.text().await?)
            }
            Self::Folder(tokens) => {
                let answer = tokens.answer(&method, rest, body.as_bytes()).await;
                tokens.close().await;
                (answer.0, answer.1.to_string())
            }
        };
        if !(200..300).contains(&status) {
            return Err(Refusal::from_answer(status, &text).into());
        }
        Ok(serde_json::from_str(&text)?)
    }
}

/// The socket takes any host that is this machine.
const BASE: &str = "http://localhost";

/// Returns a client of the process that has a folder, if there is one.
async fn running(place: &Place) -> anyhow::Result<Option<Client>> {
    let client = Client::builder().unix_socket(socket_path(&place.data)).no_proxy().build()?;
    match client.get(format!("{BASE}/livez")).send().await {
        Ok(_) => Ok(Some(client)),
        // There is no socket, or one that a process has left.
        Err(error) if error.is_connect() => Ok(None),
        Err(error) => Err(error).context("the process gave no answer"),
    }
}

/// Runs `gridpost healthcheck`: fails unless the process takes publishes.
pub async fn healthcheck(place: &Place, output: Output) -> anyhow::Result<()> {
    let Some(client) = running(place).await? else {
        bail!("no process has {}: `gridpost serve` starts one", place.data.display());
    };
    let answer = client.get(format!("{BASE}/readyz")).send().await?;
    let (is_ready, word) = (answer.status().is_success(), answer.text().await?);
    if !is_ready {
        bail!("{}", word.trim());
    }
    output.print(&serde_json::to_value(Ready { ready: true })?, |_| word.trim().to_owned());
    Ok(())
}
