//! `COMMAND`: which commands there are, for clients that ask when they connect.

use super::table::{COMMANDS, Command, Does};
use super::{Context, unknown_subcommand};
use crate::serve::resp::reply::Replies;

/// `COMMAND`, `COMMAND COUNT`, `COMMAND LIST`, `COMMAND INFO [name ...]`, `COMMAND DOCS [name ...]`.
pub(super) fn command(words: &[&[u8]], context: &mut Context<'_>) {
    let replies = &mut *context.replies;
    let Some(subcommand) = words.get(1) else { return all(replies) };
    let is = |name: &str| subcommand.eq_ignore_ascii_case(name.as_bytes());
    match &words[2..] {
        [] if is("COUNT") => replies.integer(COMMANDS.len() as i64),
        [] if is("LIST") => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| replies.bulk(lowercase(command)));
        }
        [] if is("INFO") => all(replies),
        names if is("INFO") => {
            replies.array(names.len());
            for name in names {
                match named(name) {
                    Some(command) => entry(command, replies),
                    None => replies.null(),
                }
            }
        }
        [] if is("DOCS") => docs(&COMMANDS.iter().collect::<Vec<_>>(), replies),
        names if is("DOCS") => docs(&names.iter().filter_map(|name| named(name)).collect::<Vec<_>>(), replies),
        _ => replies.error(unknown_subcommand(words)),
    }
}

fn named(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

fn lowercase(command: &Command) -> String {
    command.name.to_ascii_lowercase()
}

fn all(replies: &mut Replies) {
    replies.array(COMMANDS.len());
    COMMANDS.iter().for_each(|command| entry(command, replies));
}

/// Its name, how many words, flags, where its keys are, and what Redis has in lists that are empty here.
fn entry(command: &Command, replies: &mut Replies) {
    let flag = if matches!(command.does, Does::Ask(_)) { "write" } else { "readonly" };
    let words = command.least as i64;
    replies.array(10);
    replies.bulk(lowercase(command));
    replies.integer(if command.least == command.most { words } else { -words });
    replies.array(2);
    replies.simple(flag);
    replies.simple("fast");
    replies.integer(command.key as i64);
    replies.integer(command.key as i64);
    replies.integer(i64::from(command.key > 0));
    (0..4).for_each(|_| replies.array(0));
}

fn docs(commands: &[&Command], replies: &mut Replies) {
    replies.map(commands.len());
    for command in commands {
        replies.bulk(lowercase(command));
        replies.map(3);
        replies.bulk("summary");
        replies.bulk(command.summary);
        replies.bulk("since");
        replies.bulk(env!("CARGO_PKG_VERSION"));
        replies.bulk("group");
        replies.bulk(if matches!(command.does, Does::Ask(_)) { "generic" } else { "connection" });
    }
}
