//! `CLIENT`: what clients tell of themselves when they connect.

use super::{Context, unknown_subcommand, wrong_number};
use crate::serve::resp::refusal::Refusal;

/// How long a name may be.
const MAX_NAME: usize = 256;

/// `CLIENT SETNAME name`, `GETNAME`, `ID`, and what can be said without anything being done about it.
pub(super) fn client(words: &[&[u8]], context: &mut Context<'_>) {
    let is = |name: &str| words[1].eq_ignore_ascii_case(name.as_bytes());
    match words.len() {
        3 if is("SETNAME") => match checked_name(words[2]) {
            Ok(name) => {
                context.session.name = name.to_vec();
                context.replies.ok();
            }
            Err(refusal) => context.replies.error(refusal),
        },
        2 if is("GETNAME") && context.session.name.is_empty() => context.replies.null(),
        2 if is("GETNAME") => context.replies.bulk(&context.session.name),
        2 if is("ID") => context.replies.integer(context.session.id as i64),
        // Which library it is, and what to do with it when memory or keys run short: neither matters here.
        4 if is("SETINFO") => context.replies.ok(),
        3 if is("NO-EVICT") || is("NO-TOUCH") => context.replies.ok(),
        _ if ["SETNAME", "GETNAME", "ID", "SETINFO", "NO-EVICT", "NO-TOUCH"].into_iter().any(is) => {
            let name = String::from_utf8_lossy(words[1]);
            context.replies.error(wrong_number(&format!("client|{name}")));
        }
        _ => context.replies.error(unknown_subcommand(words)),
    }
}

/// A name, as Redis takes it: it is shown in lists, so it is one word.
pub(super) fn checked_name(name: &[u8]) -> Result<&[u8], Refusal> {
    if name.len() <= MAX_NAME && name.iter().all(u8::is_ascii_graphic) {
        return Ok(name);
    }
    Err(Refusal::from(
        "ERR Client names cannot contain spaces, newlines or special characters, and have 256 bytes at most.",
    ))
}
