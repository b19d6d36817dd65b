//! A connection that requests are asked over, in one protocol or another.

mod grpc;
mod http;
mod resp;

use tokio::time::{Instant, timeout};

use super::dial::{Dial, PATIENCE, Wire};
use super::plan::Question;
use super::target::Protocol;

/// What a server said to one request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Allowed,
    Denied,
    /// Let through because no rule is about it: what Envoy's protocol says of a domain or a descriptor nobody knows.
    Unmatched,
    Refused(Box<Refusal>),
}

/// Why there is no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Few: they are counted one by one.
    pub(super) kind: String,
    /// In the server's own words.
    pub(super) message: String,
    /// Asking again might help: it is not the question that is wrong.
    pub(super) passing: bool,
}

/// Answers in the order of the questions, and when each was there.
pub(super) type Answers = Vec<(Answer, Instant)>;

/// The connection cannot be used any more, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost(pub(super) String);

/// A connection.
pub(super) enum Client {
    Http(http::Http),
    Grpc(Box<grpc::Grpc>),
    Resp(resp::Resp),
}

impl Client {
    /// Opens a connection; or says what is wrong, and what to do next.
    pub(super) async fn open(dial: &Dial, protocol: Protocol, question: &Question) -> Result<Self, String> {
        let wire = dial.open().await?;
        match timeout(PATIENCE, Client::over(wire, protocol, question)).await {
            Ok(opened) => opened.map_err(|Lost(why)| why),
            Err(_) => Err(format!("connected, and then nothing for {PATIENCE:?}: is that the right port?")),
        }
    }

    /// Speaks over a connection.
    pub(super) async fn over(wire: Wire, protocol: Protocol, question: &Question) -> Result<Self, Lost> {
        Ok(match protocol {
            Protocol::Http => Client::Http(http::Http::over(wire, question).await?),
            Protocol::Grpc => Client::Grpc(Box::new(grpc::Grpc::over(wire, question).await?)),
            Protocol::Resp => Client::Resp(resp::Resp::over(wire, question).await?),
        })
    }

    /// Asks about keys, and notes an answer for each. Those that were there before a connection was lost are noted.
    ///
    /// More than one key at a time is for the Redis protocol.
    pub(super) async fn ask(&mut self, keys: &[u64], answers: &mut Answers) -> Result<(), Lost> {
        match self {
            Client::Resp(resp) => return resp.ask(keys, answers).await,
            Client::Http(http) => {
                for key in keys {
                    let answer = http.ask(*key).await?;
                    answers.push((answer, Instant::now()));
                }
            }
            Client::Grpc(grpc) => {
                for key in keys {
                    let answer = grpc.ask(*key).await?;
                    answers.push((answer, Instant::now()));
                }
            }
        }
        Ok(())
    }
}

/// As much of a server's words as is good to read.
fn words(text: &str) -> String {
    let text: String = text.chars().filter(|character| !character.is_control()).take(300).collect();
    if text.trim().is_empty() { "without a word".to_owned() } else { text }
}
