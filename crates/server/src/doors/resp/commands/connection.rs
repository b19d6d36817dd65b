//! The commands about the connection itself: authentication, protocol version, name, ping and quit.

use super::super::reply::{CommandError, quoted};
use super::{CommandContext, parse_number, unknown_subcommand, wrong_word_count};

/// The most bytes of a client's name.
const MAX_NAME: usize = 256;

/// `AUTH [user] token`. There is one token, so it does not matter which user it is.
pub(super) fn auth(words: &[&[u8]], context: &mut CommandContext<'_>) {
    match authenticate(words[words.len() - 1], context) {
        Ok(()) => context.replies.ok(),
        Err(error) => context.replies.error(error),
    }
}

/// `HELLO [version [AUTH user token] [SETNAME name]]`.
pub(super) fn hello(words: &[&[u8]], context: &mut CommandContext<'_>) {
    match negotiate(words, context) {
        Ok(()) => reply_hello(context),
        Err(error) => context.replies.error(error),
    }
}

fn negotiate(words: &[&[u8]], context: &mut CommandContext<'_>) -> Result<(), CommandError> {
    let resp3 = match words.get(1).map(|version| parse_number(version)) {
        None => context.replies.resp3,
        Some(Some(2)) => false,
        Some(Some(3)) => true,
        Some(Some(_)) => return Err(CommandError::from("NOPROTO unsupported protocol version")),
        Some(None) => return Err(CommandError::from("ERR Protocol version is not an integer or out of range")),
    };
    let (mut token, mut name) = (None, None);
    let mut rest = words.get(2..).unwrap_or_default();
    while let [option, rest_of_words @ ..] = rest {
        rest = match rest_of_words {
            [_user, given, rest_of_words @ ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                token = Some(*given);
                rest_of_words
            }
            [chosen, rest_of_words @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                name = Some(checked_name(chosen)?);
                rest_of_words
            }
            _ => return Err(CommandError::new(format!("ERR Syntax error in HELLO option {}", quoted(option)))),
        };
    }
    if let Some(token) = token {
        authenticate(token, context)?;
    }
    if !context.session.is_authenticated {
        return Err(CommandError::from(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
             <pass> option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        context.session.name = name.to_vec();
    }
    context.replies.resp3 = resp3;
    Ok(())
}

fn authenticate(token: &[u8], context: &mut CommandContext<'_>) -> Result<(), CommandError> {
    match &context.door.token {
        None => Err(CommandError::from(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        )),
        Some(expected) if expected.matches(token) => {
            context.session.is_authenticated = true;
            Ok(())
        }
        Some(_) => {
            context.session.authentication_failed();
            Err(CommandError::from("WRONGPASS invalid username-password pair or user is disabled."))
        }
    }
}

fn reply_hello(context: &mut CommandContext<'_>) {
    let replies = &mut *context.replies;
    replies.map(7);
    replies.bulk("server");
    replies.bulk("tidegate");
    replies.bulk("version");
    replies.bulk(env!("CARGO_PKG_VERSION"));
    replies.bulk("proto");
    replies.integer(if replies.resp3 { 3 } else { 2 });
    replies.bulk("id");
    replies.integer(context.session.id as i64);
    replies.bulk("mode");
    replies.bulk("standalone");
    replies.bulk("role");
    replies.bulk("master");
    replies.bulk("modules");
    replies.array(0);
}

/// `CLIENT SETNAME name`, `GETNAME`, `ID`, and options that have no effect here.
pub(super) fn client(words: &[&[u8]], context: &mut CommandContext<'_>) {
    let is = |name: &str| words[1].eq_ignore_ascii_case(name.as_bytes());
    match words.len() {
        3 if is("SETNAME") => match checked_name(words[2]) {
            Ok(name) => {
                context.session.name = name.to_vec();
                context.replies.ok();
            }
            Err(error) => context.replies.error(error),
        },
        2 if is("GETNAME") && context.session.name.is_empty() => context.replies.null(),
        2 if is("GETNAME") => context.replies.bulk(&context.session.name),
        2 if is("ID") => context.replies.integer(context.session.id as i64),
        // The client library, and its eviction and LRU settings: neither matters here.
        4 if is("SETINFO") => context.replies.ok(),
        3 if is("NO-EVICT") || is("NO-TOUCH") => context.replies.ok(),
        _ if ["SETNAME", "GETNAME", "ID", "SETINFO", "NO-EVICT", "NO-TOUCH"].into_iter().any(is) => {
            let name = String::from_utf8_lossy(words[1]);
            context.replies.error(wrong_word_count(&format!("client|{name}")));
        }
        _ => context.replies.error(unknown_subcommand(words)),
    }
}

/// Checks a name as Redis does: it is one word.
fn checked_name(name: &[u8]) -> Result<&[u8], CommandError> {
    if name.len() <= MAX_NAME && name.iter().all(u8::is_ascii_graphic) {
        return Ok(name);
    }
    Err(CommandError::from(
        "ERR Client names cannot contain spaces, newlines or special characters, and have 256 bytes at most.",
    ))
}

/// `PING [message]`.
pub(super) fn ping(words: &[&[u8]], context: &mut CommandContext<'_>) {
    match words.get(1) {
        None => context.replies.simple("PONG"),
        Some(message) => context.replies.bulk(message),
    }
}

/// `ECHO message`.
pub(super) fn echo(words: &[&[u8]], context: &mut CommandContext<'_>) {
    context.replies.bulk(words[1]);
}

/// `QUIT`.
pub(super) fn quit(_: &[&[u8]], context: &mut CommandContext<'_>) {
    context.replies.ok();
    context.session.closing = true;
}

/// `RESET`: RESP2, no name, and no authentication.
pub(super) fn reset(_: &[&[u8]], context: &mut CommandContext<'_>) {
    context.replies.resp3 = false;
    context.session.name.clear();
    context.session.is_authenticated = context.door.token.is_none();
    context.replies.simple("RESET");
}

/// `SELECT 0`, which clients with a configured database send.
pub(super) fn select(words: &[&[u8]], context: &mut CommandContext<'_>) {
    match words[1] {
        b"0" => context.replies.ok(),
        _ => context.replies.error("ERR DB index is out of range"),
    }
}
