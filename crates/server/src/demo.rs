//! What the program shows when it is not told what to do.

use std::io::{self, Write};

use tidegate::config::{Config, Syntax};

use crate::failure::Failure;
use crate::simulate::{Place, Progress, Replay};

const CONFIG: &str = include_str!("../samples/demo.toml");
const TRACE: &str = include_str!("../samples/demo.jsonl");

const INTRODUCTION: &str = "\
Tidegate decides who may do how much, and when to come back.

This is a replay of a bundled trace, two minutes of an invented shop, against four limits:

  login    fixed_window    5 per minute, for each user name; one user is guessing passwords
  api      token_bucket    10 per second, bursts up to 20; one client sends bursts
  search   sliding_window  20 per 10 seconds, for each address; a scraper is on a deny list
  export   sliding_log     2 per minute, for each tenant; in shadow mode: counts, never denies

What was decided:
";

const NEXT: &str = "
Next:
  tidegate simulate --config crates/server/samples/demo.toml --trace crates/server/samples/demo.jsonl
                                     the same, with every decision as a line of JSON
  tidegate check limits.toml         says what is wrong with a config, with line and column
  tidegate simulate --help           how to replay a trace of your own
  tidegate --help                    everything else

(From a checkout, `cargo run --release --` stands for `tidegate`.)
";

pub(crate) fn run() -> Result<(), Failure> {
    let config = Config::parse(CONFIG, Syntax::Toml, "demo.toml")?;
    let mut replay = Replay::new(&config, Place::memory(10_000), Progress::none())?;
    replay.run(TRACE.as_bytes(), "demo.jsonl", None::<&mut io::Sink>)?;
    let mut out = io::stdout().lock();
    let text = format!("{INTRODUCTION}\n{}{NEXT}", indented(&replay.summary()));
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::of_output)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
