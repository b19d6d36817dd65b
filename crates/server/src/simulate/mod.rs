//! `tidegate simulate`: what a config would have decided about a trace.

mod envoy;
mod event;
mod in_trace_time;
mod leftovers;
mod lines;
mod outside;
mod place;
mod progress;
mod replay;
mod stop;
mod tally;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::Path;

use tidegate::config::Config;
use tidegate::config::envoy::Domains;

use crate::check::is_envoys;
use crate::cli::Simulate;
use crate::failure::Failure;
use crate::say;
use place::Place;
use progress::Progress;
use replay::{Replay, Rules};

/// Large enough that the system is asked seldom, small enough that nobody waits for the first decisions of a pipe.
const OUTPUT_BUFFER: usize = 64 << 10;

pub(crate) fn run(simulate: &Simulate) -> Result<(), Failure> {
    simulate.room.check("simulate", &simulate.store)?;
    let rules = rules(&simulate.config)?;
    let from_stdin = simulate.trace == Path::new("-");
    let name = if from_stdin { "stdin".to_owned() } else { simulate.trace.display().to_string() };
    let unreadable = |error: io::Error| Failure::Input(format!("{name}: cannot be read: {error}"));
    let (trace, size): (Box<dyn Read>, Option<u64>) = if from_stdin {
        (Box::new(io::stdin().lock()), None)
    } else {
        let file = File::open(&simulate.trace).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        (Box::new(file), about.is_file().then_some(about.len()))
    };

    let stdout = io::stdout();
    // On a terminal the decisions themselves show how far it is.
    let quiet = !simulate.summary_only && stdout.is_terminal();
    let place = Place::open(&simulate.store, simulate.room)?;
    let mut replay = Replay::new(rules, place, Progress::new(size, quiet))?;
    let mut decisions = (!simulate.summary_only).then(|| BufWriter::with_capacity(OUTPUT_BUFFER, stdout.lock()));
    let replayed = replay.run(trace, &name, decisions.as_mut());
    // What was decided before a bad line stays decided, and is told before the complaint.
    let flushed = decisions.map_or(Ok(()), |mut decisions| decisions.flush()).map_err(Failure::of_output);
    replay.progress.finish();
    let replayed = flushed.and(replayed);
    if let Err(failure) = replay.finish() {
        // Both are told; that something was left behind is the one to act upon.
        if let Err(first @ (Failure::Input(_) | Failure::Output(_))) = replayed {
            say(&first.to_string());
        }
        return Err(failure);
    }
    replayed?;
    say(replay.summary().trim_end());
    Ok(())
}

/// What a config says, ours or Envoy's.
fn rules(path: &Path) -> Result<Rules, Failure> {
    if is_envoys(path) {
        return Ok(Rules::Envoys(Domains::from_paths([path])?));
    }
    let config = Config::from_path(path)?;
    let (file, folder) = (path.display(), path.parent().unwrap_or(Path::new("")));
    let named = config.envoy().configs.first().map(|named| folder.join(named).display().to_string());
    match (config.limits().is_empty(), named) {
        (true, None) => Err(Failure::Input(format!("{file}: no limits: expected at least one, such as [limits.api]"))),
        (true, Some(named)) => Err(Failure::Input(format!(
            "{file}: no limits but Envoy's: those of one file are replayed with --config {named}"
        ))),
        (false, named) => {
            if let Some(named) = named {
                say(&format!("{file}: its limits are replayed, and not Envoy's: those are with --config {named}"));
            }
            Ok(Rules::Ours(config))
        }
    }
}
