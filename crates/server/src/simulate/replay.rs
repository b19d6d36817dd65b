//! A trace, line by line, through a limiter whose clock is the trace's.

use std::fmt::Write as _;
use std::future::IntoFuture;
use std::io::{Read, Write};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate::config::Config;
use tidegate::{Call, Decision, Error, Limiter, Timestamp};

use super::event::{Event, Op};
use super::lines::{Lines, MAX_LINE, Next};
use super::place::Place;
use super::progress::Progress;
use super::tally::Tally;
use crate::failure::Failure;
use crate::json::write_decision;

pub(crate) struct Replay {
    limiter: Limiter,
    place: Place,
    tally: Tally,
    last: u64,
    /// Lines whose time is before that of the line before them.
    backwards: u64,
    pub(super) progress: Progress,
}

impl Replay {
    pub(crate) fn new(config: &Config, place: Place, progress: Progress) -> Result<Self, Failure> {
        let limiter = place.give(config.limiter()).build().map_err(|error| Failure::Input(error.to_string()))?;
        Ok(Replay { limiter, place, tally: Tally::new(config), last: 0, backwards: 0, progress })
    }

    /// Decides about every line, and writes the decisions when somebody wants them.
    pub(crate) fn run(
        &mut self,
        trace: impl Read,
        name: &str,
        mut decisions: Option<&mut impl Write>,
    ) -> Result<(), Failure> {
        let mut lines = Lines::new(trace);
        loop {
            let line = match lines.next() {
                Err(error) => return Err(Failure::Input(format!("{name}: cannot be read: {error}"))),
                Ok(Next::End) => return Ok(()),
                Ok(Next::TooLong) => Err((None, format!("the line is too long, expected at most {MAX_LINE} bytes"))),
                Ok(Next::Line(line)) if line.trim_ascii().is_empty() => continue,
                Ok(Next::Line(line)) => Event::parse(line),
            };
            let decided = line.and_then(|event| self.decide(&event).map_err(|message| (None, message)));
            match decided {
                Ok(decision) => {
                    if let Some(out) = &mut decisions {
                        write_decision(out, &decision).map_err(Failure::of_output)?;
                    }
                }
                Err((column, message)) => {
                    let column = column.map_or(String::new(), |column| format!("{column}:"));
                    return Err(Failure::Input(format!("{name}:{}:{column} {message}", lines.number)));
                }
            }
            self.progress.tell(lines.number, lines.bytes);
        }
    }

    fn decide(&mut self, event: &Event<'_>) -> Result<Decision, String> {
        let at = event.at_ms.0;
        self.backwards += u64::from(at < self.last);
        self.last = at;
        self.place.clock.set(Timestamp::from_millis(at));
        let (limiter, name, key) = (&self.limiter, event.limit.as_ref(), event.key.as_key());
        let call = match event.op {
            Op::Limit => limiter.limit(name, key),
            Op::Check => limiter.check(name, key),
            Op::Reserve => limiter.reserve(name, key),
            Op::Refund => limiter.refund(name, key),
            Op::Reset => limiter.reset(name, key),
        };
        let decision = answer(call.cost(event.cost.0)).map_err(|error| error.to_string())?;
        self.tally.count(name, event.op, &decision);
        Ok(decision)
    }

    /// Leaves nothing behind in the store, however far it came.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.place.finish()
    }

    /// What was decided, for people.
    pub(crate) fn summary(&self) -> String {
        let (keys, no_room) = self.place.summary();
        let mut text = format!("{}{keys}", self.tally);
        if self.backwards > 0 {
            let _ = writeln!(
                text,
                "warning: {} lines go back in time. A key that was as good as new in between may have been forgotten, so \
                 sort the trace by at_ms if decisions must be the same in every run",
                self.backwards
            );
        }
        text += no_room.as_deref().unwrap_or_default();
        text
    }
}

/// The answer to a call. Every store here answers where it is asked, so it is there even where it has to be awaited.
fn answer(call: Call<'_>) -> Result<Decision, Error> {
    if let Some(answer) = call.now() {
        return answer;
    }
    let mut future = pin!(call.into_future());
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
        std::thread::yield_now();
    }
}
