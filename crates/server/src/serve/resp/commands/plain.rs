//! Small commands of the protocol itself.

use super::Context;

/// `PING [message]`.
pub(super) fn ping(words: &[&[u8]], context: &mut Context<'_>) {
    match words.get(1) {
        None => context.replies.simple("PONG"),
        Some(message) => context.replies.bulk(message),
    }
}

/// `ECHO message`.
pub(super) fn echo(words: &[&[u8]], context: &mut Context<'_>) {
    context.replies.bulk(words[1]);
}

/// `QUIT`.
pub(super) fn quit(_: &[&[u8]], context: &mut Context<'_>) {
    context.replies.ok();
    context.session.closing = true;
}

/// `RESET`: RESP2, no name, and a stranger again where strangers have to show something.
pub(super) fn reset(_: &[&[u8]], context: &mut Context<'_>) {
    context.replies.resp3 = false;
    context.session.name.clear();
    context.session.known = context.common.token.is_none();
    context.replies.simple("RESET");
}

/// `SELECT 0`, which clients send that were told a database.
pub(super) fn select(words: &[&[u8]], context: &mut Context<'_>) {
    match words[1] {
        b"0" => context.replies.ok(),
        _ => context.replies.error("ERR DB index is out of range"),
    }
}
