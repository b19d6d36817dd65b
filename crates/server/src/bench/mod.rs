//! `tidegate bench`: a bounded load for a server, and how it bears it.

mod client;
mod dial;
mod keys;
mod load;
mod pace;
mod picture;
mod plan;
mod progress;
mod random;
mod report;
mod stop;
mod tally;
mod target;
mod worker;

use std::io::{self, Write};

use plan::Plan;
use progress::Progress;
use report::Report;
pub(crate) use target::Protocol;
pub use target::Target;

use crate::cli::Bench;
use crate::failure::Failure;
use crate::{say, threads};

pub(crate) fn run(bench: &Bench) -> Result<(), Failure> {
    let plan = Plan::of(bench)?;
    let runtime = threads::runtime(None).map_err(|error| Failure::Load(format!("no threads to run on: {error}")))?;
    let progress = Progress::new(plan.duration);
    let ran = runtime.block_on(load::run(plan, &progress));
    progress.finish();
    let (plan, outcome) = ran?;

    let report = Report::of(&plan, &outcome);
    let text = if plan.json { report.to_json() } else { report.to_string() };
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::of_output);
    if plan.json {
        // The object has no place for them, and without it they are below the table.
        report.notes.iter().for_each(|note| say(note));
    }
    if let Some(path) = &plan.picture {
        // Also when nobody reads the figures any more.
        let drawn = picture::draw(&plan.describe(), &report, &outcome);
        let wrong = |error| Failure::Load(format!("{}: the picture cannot be written: {error}", path.display()));
        std::fs::write(path, drawn).map_err(wrong)?;
        say(&format!("picture: {}", path.display()));
    }
    written
}
