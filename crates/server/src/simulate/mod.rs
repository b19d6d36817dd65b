//! `tidegate simulate`: replays a trace against a config, in the trace's own time.

mod cleanup;
mod envoy;
mod replay;
mod store;
mod summary;
mod trace;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::Path;

use tidegate::config::Config;
use tidegate::config::envoy::Domains;

use crate::check::is_envoy_config;
use crate::cli::Simulate;
use crate::store_url::StoreUrl;
use crate::{Failure, print_message};
use replay::{Replay, Rules};
use store::ReplayStore;
use summary::ProgressDisplay;

/// Large enough for few system calls, small enough that the first decisions reach a pipe soon.
const OUTPUT_BUFFER: usize = 64 << 10;

pub(crate) fn run(simulate: &Simulate) -> Result<(), Failure> {
    let store = StoreUrl::from_arguments(simulate.store.as_ref(), simulate.store_file.as_deref())?.unwrap_or_default();
    simulate.capacity.check("simulate", &store)?;
    let rules = load_rules(&simulate.config)?;
    let from_stdin = simulate.trace == Path::new("-");
    let name = if from_stdin { "stdin".to_owned() } else { simulate.trace.display().to_string() };
    let unreadable = |error: io::Error| Failure::Input(format!("{name}: cannot be read: {error}"));
    let (trace, size): (Box<dyn Read>, Option<u64>) = if from_stdin {
        (Box::new(io::stdin().lock()), None)
    } else {
        let file = File::open(&simulate.trace).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        (Box::new(file), metadata.is_file().then_some(metadata.len()))
    };

    let stdout = io::stdout();
    // On a terminal, the decisions themselves show the progress.
    let quiet = !simulate.summary_only && stdout.is_terminal();
    let store = ReplayStore::open(&store, simulate.capacity)?;
    let mut replay = Replay::new(rules, store, ProgressDisplay::new(size, quiet))?;
    let mut decisions = (!simulate.summary_only).then(|| BufWriter::with_capacity(OUTPUT_BUFFER, stdout.lock()));
    let replayed = replay.run(trace, &name, decisions.as_mut());
    // Decisions before a bad line are written before the error.
    let flushed = decisions.map_or(Ok(()), |mut decisions| decisions.flush()).map_err(Failure::from_output);
    replay.progress.finish();
    let replayed = flushed.and(replayed);
    if let Err(failure) = replay.finish() {
        // Both errors are printed. The keys that are left behind need action, so they decide the result.
        if let Err(first @ (Failure::Input(_) | Failure::Output(_))) = replayed {
            print_message(&first.to_string());
        }
        return Err(failure);
    }
    replayed?;
    print_message(replay.summary().trim_end());
    Ok(())
}

/// Loads a config, ours or Envoy's.
fn load_rules(path: &Path) -> Result<Rules, Failure> {
    if is_envoy_config(path) {
        return Ok(Rules::Envoy(Domains::from_paths([path])?));
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
                print_message(&format!(
                    "{file}: its limits are replayed, and not Envoy's: those are with --config {named}"
                ));
            }
            Ok(Rules::Tidegate(config))
        }
    }
}
