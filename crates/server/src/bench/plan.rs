//! What is to be done, from what was typed.

use std::path::PathBuf;
use std::time::Duration;

use super::dial::Dial;
use super::keys::Keys;
use super::target::Target;
use crate::cli::{Bench, Distribution, Picture};
use crate::failure::Failure;
use crate::serve::{Token, find_token, trusted};

/// How many keys there are, unless said otherwise.
const KEYS: u64 = 1_000_000;

/// What is to be done.
pub(super) struct Plan {
    pub(super) servers: Vec<Server>,
    pub(super) rate: Option<u32>,
    pub(super) duration: Duration,
    pub(super) connections: usize,
    pub(super) pipeline: usize,
    pub(super) keys: Distribution,
    pub(super) key_count: u64,
    pub(super) seed: u64,
    pub(super) picture: Option<PathBuf>,
    pub(super) json: bool,
}

/// Whom to ask, and what.
pub(super) struct Server {
    pub(super) target: Target,
    pub(super) dial: Dial,
    pub(super) question: Question,
}

/// What is asked of a server about every key.
#[derive(Clone)]
pub(super) struct Question {
    /// The server, as it is called in requests.
    pub(super) authority: String,
    pub(super) token: Option<Token>,
    pub(super) limit: Option<String>,
    pub(super) domain: String,
    pub(super) descriptor: String,
    pub(super) cost: u32,
}

impl Plan {
    pub(super) fn of(bench: &Bench) -> Result<Self, Failure> {
        bench.check().map_err(Failure::Usage)?;
        let token = find_token(bench.token_file.as_deref())?;
        let roots = bench.tls_ca.as_deref().map(trusted).transpose()?;
        let server = |target: &Target| {
            let question = Question {
                authority: target.authority(),
                token: token.clone(),
                limit: bench.limit.clone(),
                domain: bench.domain.clone().unwrap_or_else(|| "envoy".to_owned()),
                descriptor: bench.descriptor.clone().unwrap_or_else(|| "remote_address".to_owned()),
                cost: bench.cost,
            };
            Ok(Server { target: target.clone(), dial: Dial::new(target, roots.as_ref())?, question })
        };
        Ok(Plan {
            servers: bench.urls.iter().map(server).collect::<Result<_, Failure>>()?,
            rate: bench.rate,
            duration: bench.duration,
            connections: bench.connections as usize,
            pipeline: bench.pipeline as usize,
            keys: bench.keys,
            key_count: bench.key_count.unwrap_or(if bench.keys == Distribution::One { 1 } else { KEYS }),
            seed: bench.seed,
            picture: picture(&bench.picture)?,
            json: bench.json,
        })
    }

    /// The keys of a connection.
    pub(super) fn keys(&self, connection: usize) -> Keys {
        Keys::new(self.keys, self.key_count, self.seed, connection as u64)
    }

    /// In words, for the head of a picture.
    pub(super) fn describe(&self) -> String {
        let count = |number: u64, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let rate = self.rate.map_or("as fast as they are answered".to_owned(), |rate| format!("{rate} a second"));
        let pipeline = if self.pipeline > 1 { format!(", {} together", self.pipeline) } else { String::new() };
        let keys = match self.keys {
            Distribution::One => "one key".to_owned(),
            Distribution::Uniform => format!("{}, uniform", count(self.key_count, "key")),
            Distribution::Zipf => format!("{}, zipf", count(self.key_count, "key")),
        };
        format!("{}{pipeline}, {rate}, {keys}", count(self.connections as u64, "connection"))
    }
}

/// Where the picture goes. A folder that is not there is told before a long run rather than after it.
fn picture(picture: &Picture) -> Result<Option<PathBuf>, Failure> {
    let Picture::To(path) = picture else { return Ok(None) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
        let path = path.display();
        return Err(Failure::Load(format!(
            "{path}: no picture can be written there: expected a file in a folder that \
                                          exists, or --picture off"
        )));
    }
    Ok(Some(path.clone()))
}
