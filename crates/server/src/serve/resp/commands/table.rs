//! Which commands there are. What `COMMAND` tells comes from here, too.

use super::{Tell, auth, client, command, info, limit, plain, throttle};
use crate::serve::resp::question::Question;
use crate::serve::resp::refusal::Refusal;
use crate::serve::resp::session::Session;

/// One command.
pub(super) struct Command {
    /// In capitals; clients may write it as they like.
    pub(super) name: &'static str,
    /// How many words it has, its name among them.
    pub(super) least: usize,
    pub(super) most: usize,
    /// Which word is the key; 0 for none.
    pub(super) key: usize,
    /// Whether it may be used before the token was shown.
    pub(super) for_strangers: bool,
    pub(super) does: Does,
    pub(super) summary: &'static str,
}

#[derive(Clone, Copy)]
pub(super) enum Does {
    /// Asks a limit.
    Ask(for<'a> fn(&[&'a [u8]], &mut Session) -> Result<Question<'a>, Refusal>),
    /// Everything else.
    Tell(Tell),
}

use Does::{Ask, Tell as Tells};

/// The busy ones first.
#[rustfmt::skip] // a table
pub(super) const COMMANDS: [Command; 16] = [
    asks("CL.THROTTLE", 5..=6, 1, throttle::cell, "Takes from a bucket whose quota comes with the call, and answers as redis-cell does"),
    asks("TG.LIMIT", 3..=4, 2, limit::limit, "Takes from a limit of the config"),
    asks("THROTTLE", 5..=6, 1, throttle::crab, "Takes from a bucket whose quota comes with the call, and answers as throttlecrab does"),
    asks("TG.CHECK", 3..=4, 2, limit::check, "Asks a limit of the config, and takes nothing"),
    asks("TG.RESET", 3..=3, 2, limit::reset, "Forgets what a key has used of a limit of the config"),
    tells("PING", 1..=2, false, plain::ping, "Answers PONG, or what it was given"),
    tells("ECHO", 2..=2, false, plain::echo, "Answers what it was given"),
    tells("HELLO", 1..=MANY, true, auth::hello, "Chooses RESP2 or RESP3, and tells who answers"),
    tells("AUTH", 2..=3, true, auth::auth, "Shows the token"),
    tells("QUIT", 1..=MANY, true, plain::quit, "Ends the connection"),
    tells("RESET", 1..=1, true, plain::reset, "Makes the connection as good as new"),
    tells("SELECT", 2..=2, false, plain::select, "Chooses the database, of which there is one"),
    tells("CLIENT", 2..=MANY, false, client::client, "Tells and takes what is known of this client"),
    tells("COMMAND", 1..=MANY, false, command::command, "Tells which commands there are"),
    tells("INFO", 1..=MANY, false, info::info, "Tells about the server"),
    tells("CONFIG", 2..=MANY, false, info::config, "Tells the settings that redis-benchmark asks for"),
];

const MANY: usize = usize::MAX;

type Words = std::ops::RangeInclusive<usize>;

const fn asks(
    name: &'static str,
    words: Words,
    key: usize,
    question: for<'a> fn(&[&'a [u8]], &mut Session) -> Result<Question<'a>, Refusal>,
    summary: &'static str,
) -> Command {
    let (least, most) = (*words.start(), *words.end());
    Command { name, least, most, key, for_strangers: false, does: Ask(question), summary }
}

const fn tells(name: &'static str, words: Words, for_strangers: bool, tell: Tell, summary: &'static str) -> Command {
    let (least, most) = (*words.start(), *words.end());
    Command { name, least, most, key: 0, for_strangers, does: Tells(tell), summary }
}
