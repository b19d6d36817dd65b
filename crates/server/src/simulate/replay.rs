//! A trace, line by line, through a limiter whose clock is the trace's.

use std::fmt::Write as _;
use std::future::{Future, IntoFuture};
use std::io::{Read, Write};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate::config::Config;
use tidegate::config::envoy::Domains;
use tidegate::{Call, Decision, Error, Limiter, ManualClock, Timestamp};

use super::envoy;
use super::event::{Event, Wrong};
use super::lines::{Lines, MAX_LINE, Next};
use super::place::Place;
use super::progress::Progress;
use super::tally::Tally;
use crate::failure::Failure;
use crate::json::{Millis, Reply};
use crate::serve::gate::Ask;

/// What a trace is decided by, and so what its lines are like.
pub(crate) enum Rules {
    /// Lines that name a limit.
    Ours(Config),
    /// Lines that are rate limit requests of Envoy's.
    Envoys(Domains),
}

pub(crate) struct Replay {
    rules: Rules,
    limiter: Limiter,
    place: Place,
    tally: Tally,
    time: Time,
    pub(super) progress: Progress,
}

/// The time of the trace.
struct Time {
    clock: ManualClock,
    last: u64,
    /// Lines whose time is before that of the line before them.
    backwards: u64,
}

impl Time {
    fn set(&mut self, at: Millis) {
        self.backwards += u64::from(at.0 < self.last);
        self.last = at.0;
        self.clock.set(Timestamp::from_millis(at.0));
    }
}

impl Replay {
    pub(crate) fn new(rules: Rules, place: Place, progress: Progress) -> Result<Self, Failure> {
        let (limiter, tally) = match &rules {
            Rules::Ours(config) => {
                let limits = config.limits().iter().map(|(name, limit)| (name.clone(), limit.is_shadow()));
                (config.limiter(), Tally::new(limits))
            }
            Rules::Envoys(domains) => {
                let limits = domains.limits().map(|(name, limit)| (name, limit.is_shadow()));
                (Limiter::builder().limits(domains.limits()), Tally::new(limits.chain(domains.always_over())))
            }
        };
        let limiter = place.give(limiter).build().map_err(|error| Failure::Input(error.to_string()))?;
        let time = Time { clock: place.clock.clone(), last: 0, backwards: 0 };
        Ok(Replay { rules, limiter, place, tally, time, progress })
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
            let decided = match lines.next() {
                Err(error) => return Err(Failure::Input(format!("{name}: cannot be read: {error}"))),
                Ok(Next::End) => return Ok(()),
                Ok(Next::TooLong) => Err((None, format!("the line is too long, expected at most {MAX_LINE} bytes"))),
                Ok(Next::Line(line)) if line.trim_ascii().is_empty() => continue,
                Ok(Next::Line(line)) => self.decide(line),
            };
            match decided {
                Ok(reply) => {
                    if let Some(out) = &mut decisions {
                        reply.write(out).map_err(Failure::of_output)?;
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

    fn decide(&mut self, line: &[u8]) -> Result<Reply, Wrong> {
        let Rules::Envoys(domains) = &self.rules else { return self.decide_ours(line) };
        let event = envoy::Event::parse(line)?;
        let asked = event.asked()?;
        self.time.set(event.at_ms);
        let limits = envoy::Replayed::new(&self.limiter, &mut self.tally);
        wait(envoy::decide(&limits, domains, &event.domain, &asked)).map_err(told)
    }

    fn decide_ours(&mut self, line: &[u8]) -> Result<Reply, Wrong> {
        let event = Event::parse(line)?;
        let op = event.op()?;
        self.time.set(event.at_ms);
        let ask =
            Ask { op, limit: &event.limit, key: event.key.as_key(), cost: event.cost.0, quota: None, whole_key: None };
        let decision = answer(ask.to(&self.limiter)).map_err(told)?;
        self.tally.count(&event.limit, op, &decision);
        Ok(Reply::from(&decision))
    }

    /// Leaves nothing behind in the store, however far it came.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.place.finish()
    }

    /// What was decided, for people.
    pub(crate) fn summary(&self) -> String {
        let (keys, no_room) = self.place.summary();
        let mut text = format!("{}{keys}", self.tally);
        if self.time.backwards > 0 {
            let _ = writeln!(
                text,
                "warning: {} lines go back in time. A key that was as good as new in between may have been forgotten, so \
                 sort the trace by at_ms if decisions must be the same in every run",
                self.time.backwards
            );
        }
        text += no_room.as_deref().unwrap_or_default();
        text
    }
}

fn told(error: Error) -> Wrong {
    (None, error.to_string())
}

fn answer(call: Call<'_>) -> Result<Decision, Error> {
    call.now().unwrap_or_else(|| wait(call.into_future()))
}

/// What comes of a future. Every store here answers where it is asked, so it is there even where it has to be awaited.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
        std::thread::yield_now();
    }
}
