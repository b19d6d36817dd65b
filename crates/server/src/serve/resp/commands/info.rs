//! `INFO` and `CONFIG`: about the server.

use super::{Context, unknown_subcommand};
use crate::serve::resp::common::Common;

/// Which Redis a client may take this for, when it looks for what it can use.
const LIKE_REDIS: &str = "7.0.0";

/// `INFO [section ...]`.
pub(super) fn info(words: &[&[u8]], context: &mut Context<'_>) {
    let everything =
        |section: &&[u8]| [&b"all"[..], b"default", b"everything"].contains(&&*section.to_ascii_lowercase());
    let wanted = &words[1..];
    let sections = sections(context.common);
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

type Fields = Vec<(&'static str, String)>;

fn sections(common: &Common) -> [(&'static str, Fields); 5] {
    let gate = &common.gate;
    [
        (
            "Server",
            vec![
                ("redis_version", LIKE_REDIS.to_owned()),
                ("tidegate_version", env!("CARGO_PKG_VERSION").to_owned()),
                ("redis_mode", "standalone".to_owned()),
                ("process_id", std::process::id().to_string()),
                ("uptime_in_seconds", common.started.elapsed().as_secs().to_string()),
            ],
        ),
        ("Clients", vec![("connected_clients", common.connected().to_string())]),
        // Clients wait until nothing is loaded any more.
        ("Persistence", vec![("loading", "0".to_owned())]),
        ("Replication", vec![("role", "master".to_owned()), ("connected_slaves", "0".to_owned())]),
        ("Tidegate", vec![("store", gate.backing.name().to_owned()), ("limits", gate.served.load().count.to_string())]),
    ]
}

/// `CONFIG GET setting ...`: those that redis-benchmark shows. Nothing is written to disk here.
pub(super) fn config(words: &[&[u8]], context: &mut Context<'_>) {
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
