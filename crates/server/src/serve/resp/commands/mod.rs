//! The commands, a file for each family.

mod auth;
mod client;
mod command;
mod info;
mod limit;
mod plain;
mod quota;
mod table;
mod throttle;

use super::common::Common;
use super::question::Question;
use super::refusal::{Refusal, quoted};
use super::reply::Replies;
use super::session::Session;
pub(crate) use quota::LastQuota;
use table::{COMMANDS, Does};

/// What a command works with.
pub(crate) struct Context<'c> {
    pub(crate) session: &'c mut Session,
    pub(crate) common: &'c Common,
    pub(crate) replies: &'c mut Replies,
}

/// What is to be done about a command.
pub(crate) enum Todo<'a> {
    /// Ask a limit.
    Ask(Question<'a>),
    /// Refuse it.
    Refuse(Refusal),
    /// Let it write its reply.
    Tell(Tell),
}

/// Writes the reply to a command, whose name is the first word.
pub(crate) type Tell = fn(&[&[u8]], &mut Context<'_>);

/// What is to be done about a command, which has at least its name.
#[inline]
pub(crate) fn find<'a>(words: &[&'a [u8]], session: &mut Session) -> Todo<'a> {
    let found = COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(words[0]));
    if !session.known && !found.is_some_and(|command| command.for_strangers) {
        return Todo::Refuse(Refusal::from("NOAUTH Authentication required."));
    }
    let Some(command) = found else { return unknown(words, session) };
    if !(command.least..=command.most).contains(&words.len()) {
        return Todo::Refuse(wrong_number(command.name));
    }
    match command.does {
        Does::Ask(question) => question(words, session).map_or_else(Todo::Refuse, Todo::Ask),
        Does::Tell(tell) => Todo::Tell(tell),
    }
}

fn wrong_number(name: &str) -> Refusal {
    Refusal::new(format!("ERR wrong number of arguments for '{}' command", name.to_ascii_lowercase()))
}

#[cold]
fn unknown(words: &[&[u8]], session: &mut Session) -> Todo<'static> {
    // A page in somebody's browser may send a form here, whose lines would be commands.
    if ["post", "host:"].iter().any(|http| words[0].eq_ignore_ascii_case(http.as_bytes())) {
        session.closing = true;
        return Todo::Refuse(Refusal::from("ERR this is the Redis protocol, and not HTTP"));
    }
    let mut text = format!("ERR unknown command {}, with args beginning with: ", quoted(words[0]));
    for word in &words[1..] {
        if text.len() > 256 {
            break;
        }
        text += &quoted(word);
        text.push(' ');
    }
    Todo::Refuse(Refusal::new(text))
}

/// A whole number, written with digits only.
#[inline]
fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(digit.into()) }
    })
}

fn unknown_subcommand(words: &[&[u8]]) -> Refusal {
    let command = String::from_utf8_lossy(words[0]).to_ascii_uppercase();
    Refusal::new(format!("ERR unknown subcommand {}. {command} knows fewer here than in Redis.", quoted(words[1])))
}
