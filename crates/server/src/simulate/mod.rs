//! `tidegate simulate`: what a config would have decided about a trace.

mod event;
mod lines;
mod progress;
mod replay;
mod tally;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::Path;

use tidegate::config::Config;

use crate::cli::Simulate;
use crate::failure::Failure;
use crate::say;
pub(crate) use progress::Progress;
pub(crate) use replay::Replay;

/// Large enough that the system is asked seldom, small enough that nobody waits for the first decisions of a pipe.
const OUTPUT_BUFFER: usize = 64 << 10;

pub(crate) fn run(simulate: &Simulate) -> Result<(), Failure> {
    let config = Config::from_path(&simulate.config)?;
    if config.limits().is_empty() {
        let file = simulate.config.display();
        return Err(Failure::Input(format!("{file}: no limits: expected at least one, such as [limits.api]")));
    }
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
    let mut replay = Replay::new(&config, simulate.max_keys as usize, Progress::new(size, quiet))?;
    let mut decisions = (!simulate.summary_only).then(|| BufWriter::with_capacity(OUTPUT_BUFFER, stdout.lock()));
    let replayed = replay.run(trace, &name, decisions.as_mut());
    // What was decided before a bad line stays decided, and is told before the complaint.
    let flushed = decisions.map_or(Ok(()), |mut decisions| decisions.flush()).map_err(Failure::of_output);
    replay.progress.finish();
    flushed.and(replayed)?;
    say(replay.summary().trim_end());
    Ok(())
}
