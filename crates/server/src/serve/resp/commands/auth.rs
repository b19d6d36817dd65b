//! Who asks, and in which version of the protocol.

use super::{Context, client, number};
use crate::serve::resp::refusal::{Refusal, quoted};

/// `AUTH [user] token`. There is one token, so it does not matter which user it is.
pub(super) fn auth(words: &[&[u8]], context: &mut Context<'_>) {
    match shown(words[words.len() - 1], context) {
        Ok(()) => context.replies.ok(),
        Err(refusal) => context.replies.error(refusal),
    }
}

/// `HELLO [version [AUTH user token] [SETNAME name]]`.
pub(super) fn hello(words: &[&[u8]], context: &mut Context<'_>) {
    match greeted(words, context) {
        Ok(()) => introduce(context),
        Err(refusal) => context.replies.error(refusal),
    }
}

fn greeted(words: &[&[u8]], context: &mut Context<'_>) -> Result<(), Refusal> {
    let resp3 = match words.get(1).map(|version| number(version)) {
        None => context.replies.resp3,
        Some(Some(2)) => false,
        Some(Some(3)) => true,
        Some(Some(_)) => return Err(Refusal::from("NOPROTO unsupported protocol version")),
        Some(None) => return Err(Refusal::from("ERR Protocol version is not an integer or out of range")),
    };
    let (mut token, mut name) = (None, None);
    let mut rest = words.get(2..).unwrap_or_default();
    while let [option, behind @ ..] = rest {
        rest = match behind {
            [_user, shown, behind @ ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                token = Some(*shown);
                behind
            }
            [chosen, behind @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                name = Some(client::checked_name(chosen)?);
                behind
            }
            _ => return Err(Refusal::new(format!("ERR Syntax error in HELLO option {}", quoted(option)))),
        };
    }
    if let Some(token) = token {
        shown(token, context)?;
    }
    if !context.session.known {
        return Err(Refusal::from(
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

fn shown(token: &[u8], context: &mut Context<'_>) -> Result<(), Refusal> {
    match &context.common.token {
        None => Err(Refusal::from(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        )),
        Some(expected) if expected.is(token) => {
            context.session.known = true;
            Ok(())
        }
        Some(_) => {
            context.session.failed();
            Err(Refusal::from("WRONGPASS invalid username-password pair or user is disabled."))
        }
    }
}

fn introduce(context: &mut Context<'_>) {
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
