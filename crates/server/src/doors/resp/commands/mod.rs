//! The table of commands, and which one a line of words is. The reply to `COMMAND` comes from here, too.

mod connection;
mod introspection;
mod limits;

use super::reply::{CommandError, Replies, quoted};
use super::request::CommandRequest;
use super::{Door, Session};
use Handler::{Decide, Reply};
pub(crate) use limits::LastQuota;

/// A command.
struct Command {
    /// The name in capitals; clients may use any case.
    name: &'static str,
    /// How many words it has, including the name.
    min_words: usize,
    max_words: usize,
    /// The index of the key; 0 for none.
    key: usize,
    /// Whether it may be used without authentication.
    before_auth: bool,
    handler: Handler,
    summary: &'static str,
}

/// How a command is handled.
#[derive(Clone, Copy)]
enum Handler {
    /// It makes a decision request.
    Decide(RequestFn),
    /// It writes its own reply.
    Reply(ReplyFn),
}

/// All commands, the frequent ones first.
#[rustfmt::skip] // a table
const COMMANDS: [Command; 16] = [
    decides("CL.THROTTLE", 5..=6, 1, limits::cl_throttle, "Takes from a bucket whose quota comes with the call, and answers as redis-cell does"),
    decides("TG.LIMIT", 3..=4, 2, limits::limit, "Takes from a limit of the config"),
    decides("THROTTLE", 5..=6, 1, limits::throttle, "Takes from a bucket whose quota comes with the call, and answers as throttlecrab does"),
    decides("TG.CHECK", 3..=4, 2, limits::check, "Asks a limit of the config, and takes nothing"),
    decides("TG.RESET", 3..=3, 2, limits::reset, "Forgets what a key has used of a limit of the config"),
    replies("PING", 1..=2, false, connection::ping, "Answers PONG, or what it was given"),
    replies("ECHO", 2..=2, false, connection::echo, "Answers what it was given"),
    replies("HELLO", 1..=MANY, true, connection::hello, "Chooses RESP2 or RESP3, and tells who answers"),
    replies("AUTH", 2..=3, true, connection::auth, "Shows the token"),
    replies("QUIT", 1..=MANY, true, connection::quit, "Ends the connection"),
    replies("RESET", 1..=1, true, connection::reset, "Makes the connection as good as new"),
    replies("SELECT", 2..=2, false, connection::select, "Chooses the database, of which there is one"),
    replies("CLIENT", 2..=MANY, false, connection::client, "Tells and takes what is known of this client"),
    replies("COMMAND", 1..=MANY, false, introspection::command, "Tells which commands there are"),
    replies("INFO", 1..=MANY, false, introspection::info, "Tells about the server"),
    replies("CONFIG", 2..=MANY, false, introspection::config, "Tells the settings that redis-benchmark asks for"),
];

const MANY: usize = usize::MAX;

type Words = std::ops::RangeInclusive<usize>;

const fn decides(name: &'static str, words: Words, key: usize, request: RequestFn, summary: &'static str) -> Command {
    let (min_words, max_words) = (*words.start(), *words.end());
    Command { name, min_words, max_words, key, before_auth: false, handler: Decide(request), summary }
}

const fn replies(
    name: &'static str,
    words: Words,
    before_auth: bool,
    reply: ReplyFn,
    summary: &'static str,
) -> Command {
    let (min_words, max_words) = (*words.start(), *words.end());
    Command { name, min_words, max_words, key: 0, before_auth, handler: Reply(reply), summary }
}

/// What a command that writes its own reply works with.
pub(crate) struct Context<'c> {
    pub(crate) session: &'c mut Session,
    pub(crate) door: &'c Door,
    pub(crate) replies: &'c mut Replies,
}

/// How to answer a command.
pub(crate) enum Action<'a> {
    /// Decide, and reply with the decision.
    Decide(CommandRequest<'a>),
    /// Reply with an error.
    Refuse(CommandError),
    /// Let the command write its reply.
    Reply(ReplyFn),
}

/// Makes the decision request of a command, whose name is the first word.
type RequestFn = for<'a> fn(&[&'a [u8]], &mut Session) -> Result<CommandRequest<'a>, CommandError>;

/// Writes the reply to a command, whose name is the first word.
pub(crate) type ReplyFn = fn(&[&[u8]], &mut Context<'_>);

/// Returns how to answer a command, which has at least its name.
#[inline]
pub(crate) fn find<'a>(words: &[&'a [u8]], session: &mut Session) -> Action<'a> {
    let found = COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(words[0]));
    if !session.is_authenticated && !found.is_some_and(|command| command.before_auth) {
        return Action::Refuse(CommandError::from("NOAUTH Authentication required."));
    }
    let Some(command) = found else { return unknown(words, session) };
    if !(command.min_words..=command.max_words).contains(&words.len()) {
        return Action::Refuse(wrong_number(command.name));
    }
    match command.handler {
        Decide(request) => request(words, session).map_or_else(Action::Refuse, Action::Decide),
        Reply(reply) => Action::Reply(reply),
    }
}

fn wrong_number(name: &str) -> CommandError {
    CommandError::new(format!("ERR wrong number of arguments for '{}' command", name.to_ascii_lowercase()))
}

#[cold]
fn unknown(words: &[&[u8]], session: &mut Session) -> Action<'static> {
    // A page in a browser may post a form here, whose lines would be commands.
    if ["post", "host:"].iter().any(|http| words[0].eq_ignore_ascii_case(http.as_bytes())) {
        session.closing = true;
        return Action::Refuse(CommandError::from("ERR this is the Redis protocol, and not HTTP"));
    }
    let mut text = format!("ERR unknown command {}, with args beginning with: ", quoted(words[0]));
    for word in &words[1..] {
        if text.len() > 256 {
            break;
        }
        text += &quoted(word);
        text.push(' ');
    }
    Action::Refuse(CommandError::new(text))
}

/// Parses a whole number of digits only.
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

fn unknown_subcommand(words: &[&[u8]]) -> CommandError {
    let command = String::from_utf8_lossy(words[0]).to_ascii_uppercase();
    CommandError::new(format!("ERR unknown subcommand {}. {command} knows fewer here than in Redis.", quoted(words[1])))
}
