//! The commands about the server: `COMMAND`, `INFO` and `CONFIG`, as far as clients and redis-benchmark need them.

use super::super::RespDoor;
use super::super::reply::ReplyBuffer;
use super::{COMMANDS, Command, CommandContext, Handler, unknown_subcommand};

/// The version of Redis that clients see when they look for features.
const REDIS_VERSION: &str = "7.0.0";

/// `INFO [section ...]`.
pub(super) fn info(words: &[&[u8]], context: &mut CommandContext<'_>) {
    let everything =
        |section: &&[u8]| [&b"all"[..], b"default", b"everything"].contains(&&*section.to_ascii_lowercase());
    let wanted = &words[1..];
    let sections = info_sections(context.door);
    let chosen = sections.iter().filter(|(name, _)| {
        let is_this = |section: &&[u8]| section.eq_ignore_ascii_case(name.as_bytes());
        wanted.is_empty() || wanted.iter().any(|section| everything(section) || is_this(section))
    });
    let texts: Vec<String> = chosen
        .map(|(name, fields)| {
            let lines: String = fields.iter().map(|(field, value)| format!("{field}:{value}\r\n")).collect();
            format!("# {name}\r\n{lines}")
        })
        .collect();
    context.replies.bulk(texts.join("\r\n"));
}

type InfoFields = Vec<(&'static str, String)>;

fn info_sections(door: &RespDoor) -> [(&'static str, InfoFields); 5] {
    let app = &door.app;
    [
        (
            "Server",
            vec![
                ("redis_version", REDIS_VERSION.to_owned()),
                ("tidegate_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("process_id", std::process::id().to_string()),
                ("uptime_in_seconds", door.started.elapsed().as_secs().to_string()),
            ],
        ),
        ("Clients", vec![("connected_clients", door.connected().to_string())]),
        // Clients wait while a server is loading.
        ("Persistence", vec![("loading", "0".to_owned())]),
        ("Replication", vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
        (
            "Tidegate",
            vec![("store", app.store.name().to_owned()), ("limits", app.config.load().limit_count.to_string())],
        ),
    ]
}

/// `CONFIG GET setting ...`: those that redis-benchmark shows. This server writes nothing to disk.
pub(super) fn config(words: &[&[u8]], context: &mut CommandContext<'_>) {
    if !words[1].eq_ignore_ascii_case(b"GET") {
        return context.replies.error(unknown_subcommand(words));
    }
    let asked = |name: &str| words[2..].iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    let settings = [("save", ""), ("appendonly", "no")];
    let found: Vec<_> = settings.iter().filter(|(name, _)| asked(name)).collect();
    context.replies.map(found.len());
    for (name, value) in found {
        context.replies.bulk(name);
        context.replies.bulk(value);
    }
}

/// `COMMAND`, `COMMAND COUNT`, `COMMAND LIST`, `COMMAND INFO [name ...]`, `COMMAND DOCS [name ...]`.
pub(super) fn command(words: &[&[u8]], context: &mut CommandContext<'_>) {
    let replies = &mut *context.replies;
    let Some(subcommand) = words.get(1) else { return write_all_commands(replies) };
    let is = |name: &str| subcommand.eq_ignore_ascii_case(name.as_bytes());
    match &words[2..] {
        [] if is("COUNT") => replies.integer(COMMANDS.len() as i64),
        [] if is("LIST") => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| replies.bulk(lowercase(command)));
        }
        [] if is("INFO") => write_all_commands(replies),
        names if is("INFO") => {
            replies.array(names.len());
            for name in names {
                match find_command(name) {
                    Some(command) => write_command(command, replies),
                    None => replies.null(),
                }
            }
        }
        [] if is("DOCS") => write_docs(&COMMANDS.iter().collect::<Vec<_>>(), replies),
        names if is("DOCS") => {
            write_docs(&names.iter().filter_map(|name| find_command(name)).collect::<Vec<_>>(), replies)
        }
        _ => replies.error(unknown_subcommand(words)),
    }
}

fn find_command(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

fn lowercase(command: &Command) -> String {
    command.name.to_ascii_lowercase()
}

fn write_all_commands(replies: &mut ReplyBuffer) {
    replies.array(COMMANDS.len());
    COMMANDS.iter().for_each(|command| write_command(command, replies));
}

/// Writes the name, the number of words, flags, the positions of keys, and four lists that are empty here.
fn write_command(command: &Command, replies: &mut ReplyBuffer) {
    let flag = if matches!(command.handler, Handler::Decide(_)) { "write" } else { "readonly" };
    let words = command.min_words as i64;
    replies.array(10);
    replies.bulk(lowercase(command));
    replies.integer(if command.min_words == command.max_words { words } else { -words });
    replies.array(2);
    replies.simple(flag);
    replies.simple("fast");
    replies.integer(command.key as i64);
    replies.integer(command.key as i64);
    replies.integer(i64::from(command.key > 0));
    (0..4).for_each(|_| replies.array(0));
}

fn write_docs(commands: &[&Command], replies: &mut ReplyBuffer) {
    replies.map(commands.len());
    for command in commands {
        replies.bulk(lowercase(command));
        replies.map(3);
        replies.bulk("summary");
        replies.bulk(command.summary);
        replies.bulk("since");
        replies.bulk(env!("CARGO_PKG_VERSION"));
        replies.bulk("group");
        replies.bulk(if matches!(command.handler, Handler::Decide(_)) { "generic" } else { "connection" });
    }
}
