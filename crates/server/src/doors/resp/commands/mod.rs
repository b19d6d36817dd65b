//! The table of commands, and the lookup of a command by its words. The table is also the reply to `COMMAND`.

mod connection;
mod introspection;
mod limits;

use super::reply::{CommandError, ReplyBuffer, quoted};
use super::request::CommandRequest;
use super::{RespDoor, Session};
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
    decision_command("CL.THROTTLE", 5..=6, 1, limits::cl_throttle, "Takes from a bucket whose quota comes with the call, and answers as redis-cell does"),
    decision_command("TG.LIMIT", 3..=4, 2, limits::limit, "Takes from a limit of the config"),
    decision_command("THROTTLE", 5..=6, 1, limits::throttle, "Takes from a bucket whose quota comes with the call, and answers as throttlecrab does"),
    decision_command("TG.CHECK", 3..=4, 2, limits::check, "Asks a limit of the config, and takes nothing"),
    decision_command("TG.RESET", 3..=3, 2, limits::reset, "Forgets what a key has used of a limit of the config"),
    reply_command("PING", 1..=2, false, connection::ping, "Answers PONG, or what it was given"),
    reply_command("ECHO", 2..=2, false, connection::echo, "Answers what it was given"),
    reply_command("HELLO", 1..=UNBOUNDED, true, connection::hello, "Chooses RESP2 or RESP3, and tells who answers"),
    reply_command("AUTH", 2..=3, true, connection::auth, "Shows the token"),
    reply_command("QUIT", 1..=UNBOUNDED, true, connection::quit, "Ends the connection"),
    reply_command("RESET", 1..=1, true, connection::reset, "Makes the connection as good as new"),
    reply_command("SELECT", 2..=2, false, connection::select, "Chooses the database, of which there is one"),
    reply_command("CLIENT", 2..=UNBOUNDED, false, connection::client, "Tells and takes what is known of this client"),
    reply_command("COMMAND", 1..=UNBOUNDED, false, introspection::command, "Tells which commands there are"),
    reply_command("INFO", 1..=UNBOUNDED, false, introspection::info, "Tells about the server"),
    reply_command("CONFIG", 2..=UNBOUNDED, false, introspection::config, "Tells the settings that redis-benchmark asks for"),
];

/// The most words of a command without an upper bound.
const UNBOUNDED: usize = usize::MAX;

/// How many words a command may have.
type WordRange = std::ops::RangeInclusive<usize>;

const fn decision_command(
    name: &'static str,
    words: WordRange,
    key: usize,
    request: RequestFn,
    summary: &'static str,
) -> Command {
    let (min_words, max_words) = (*words.start(), *words.end());
    Command { name, min_words, max_words, key, before_auth: false, handler: Decide(request), summary }
}

const fn reply_command(
    name: &'static str,
    words: WordRange,
    before_auth: bool,
    reply: ReplyFn,
    summary: &'static str,
) -> Command {
    let (min_words, max_words) = (*words.start(), *words.end());
    Command { name, min_words, max_words, key: 0, before_auth, handler: Reply(reply), summary }
}

/// The session, the server and the reply buffer of a command that writes its own reply.
pub(crate) struct CommandContext<'c> {
    pub(crate) session: &'c mut Session,
    pub(crate) door: &'c RespDoor,
    pub(crate) replies: &'c mut ReplyBuffer,
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
pub(crate) type ReplyFn = fn(&[&[u8]], &mut CommandContext<'_>);

/// Returns how to answer a command, which has at least its name.
#[inline]
pub(crate) fn resolve<'a>(words: &[&'a [u8]], session: &mut Session) -> Action<'a> {
    let found = COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(words[0]));
    if !session.is_authenticated && !found.is_some_and(|command| command.before_auth) {
        return Action::Refuse(CommandError::from("NOAUTH Authentication required."));
    }
    let Some(command) = found else { return unknown_command(words, session) };
    if !(command.min_words..=command.max_words).contains(&words.len()) {
        return Action::Refuse(wrong_word_count(command.name));
    }
    match command.handler {
        Decide(request) => request(words, session).map_or_else(Action::Refuse, Action::Decide),
        Reply(reply) => Action::Reply(reply),
    }
}

fn wrong_word_count(name: &str) -> CommandError {
    CommandError::new(format!("ERR wrong number of arguments for '{}' command", name.to_ascii_lowercase()))
}

#[cold]
fn unknown_command(words: &[&[u8]], session: &mut Session) -> Action<'static> {
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
fn parse_number(word: &[u8]) -> Option<u64> {
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
