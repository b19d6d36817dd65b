//! Replays a trace, line by line, through a limiter on the trace's clock.

use std::fmt::Write as _;
use std::future::{Future, IntoFuture};
use std::io::{Read, Write};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate::api::{DecisionResponse, TimestampField};
use tidegate::config::Config;
use tidegate::config::envoy::Domains;
use tidegate::{Call, Decision, Error, Limiter, ManualClock, Timestamp};

use super::envoy;
use super::store::ReplayStore;
use super::summary::{ProgressDisplay, Summary};
use super::trace::{Event, LineError, Lines, MAX_LINE, NextLine};
use crate::Failure;
use crate::request::DecisionRequest;

/// The config of a replay, which says what the lines of the trace look like.
pub(super) enum Rules {
    /// Lines that name a limit.
    Tidegate(Config),
    /// Lines that are rate limit requests of Envoy.
    Envoy(Domains),
}

/// A replay: the limiter, its store, and the summary so far.
pub(super) struct Replay {
    rules: Rules,
    limiter: Limiter,
    store: ReplayStore,
    summary: Summary,
    time: TraceTime,
    pub(super) progress: ProgressDisplay,
}

/// The time of the trace.
struct TraceTime {
    clock: ManualClock,
    last: u64,
    /// Lines with an earlier time than the line before.
    backwards: u64,
}

impl TraceTime {
    fn set(&mut self, at: TimestampField) {
        self.backwards += u64::from(at.0 < self.last);
        self.last = at.0;
        self.clock.set(Timestamp::from_millis(at.0));
    }
}

impl Replay {
    pub(super) fn new(rules: Rules, store: ReplayStore, progress: ProgressDisplay) -> Result<Self, Failure> {
        let (limiter, summary) = match &rules {
            Rules::Tidegate(config) => {
                let limits = config.limits().iter().map(|(name, limit)| (name.clone(), limit.is_shadow()));
                (config.limiter(), Summary::new(limits))
            }
            Rules::Envoy(domains) => {
                let limits = domains.limits().map(|(name, limit)| (name, limit.is_shadow()));
                (Limiter::builder().limits(domains.limits()), Summary::new(limits.chain(domains.always_over())))
            }
        };
        let limiter = store.attach_to(limiter).build().map_err(|error| Failure::Input(error.to_string()))?;
        let time = TraceTime { clock: store.clock.clone(), last: 0, backwards: 0 };
        Ok(Replay { rules, limiter, store, summary, time, progress })
    }

    /// Decides about every line, and writes the decisions to `decisions`, if any.
    pub(super) fn run(
        &mut self,
        trace: impl Read,
        name: &str,
        mut decisions: Option<&mut impl Write>,
    ) -> Result<(), Failure> {
        let mut lines = Lines::new(trace);
        loop {
            let decided = match lines.next() {
                Err(error) => return Err(Failure::Input(format!("{name}: cannot be read: {error}"))),
                Ok(NextLine::End) => return Ok(()),
                Ok(NextLine::TooLong) => {
                    Err((None, format!("the line is too long, expected at most {MAX_LINE} bytes")))
                }
                Ok(NextLine::Line(line)) if line.trim_ascii().is_empty() => continue,
                Ok(NextLine::Line(line)) => self.decide(line),
            };
            match decided {
                Ok(reply) => {
                    if let Some(out) = &mut decisions {
                        reply.write(out).map_err(Failure::from_output)?;
                    }
                }
                Err((column, message)) => {
                    let column = column.map_or(String::new(), |column| format!("{column}:"));
                    return Err(Failure::Input(format!("{name}:{}:{column} {message}", lines.number)));
                }
            }
            self.progress.update(lines.number, lines.bytes);
        }
    }

    fn decide(&mut self, line: &[u8]) -> Result<DecisionResponse, LineError> {
        let Rules::Envoy(domains) = &self.rules else { return self.decide_event(line) };
        let event = envoy::EnvoyEvent::parse(line)?;
        let descriptors = event.descriptors()?;
        self.time.set(event.at_ms);
        let limits = envoy::ReplayDecider::new(&self.limiter, &mut self.summary);
        wait(envoy::decide(&limits, domains, &event.domain, &descriptors)).map_err(line_error)
    }

    fn decide_event(&mut self, line: &[u8]) -> Result<DecisionResponse, LineError> {
        let event = Event::parse(line)?;
        let op = event.op()?;
        self.time.set(event.at_ms);
        let request = DecisionRequest::new(op, &event.limit, event.key.as_key()).with_cost(event.cost.0);
        let decision = decide_call(request.call(&self.limiter)).map_err(line_error)?;
        self.summary.count(&event.limit, op, &decision);
        Ok(DecisionResponse::from(&decision))
    }

    /// Removes everything from the store, even after an error.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.store.finish()
    }

    /// Returns the summary for people.
    pub(super) fn summary(&self) -> String {
        let (keys, capacity_warning) = self.store.summary();
        let mut text = format!("{}{keys}", self.summary);
        if self.time.backwards > 0 {
            let _ = writeln!(
                text,
                "warning: {} lines go back in time. A key that was as good as new in between may have been forgotten, so \
                 sort the trace by at_ms if decisions must be the same in every run",
                self.time.backwards
            );
        }
        text += capacity_warning.as_deref().unwrap_or_default();
        text
    }
}

fn line_error(error: Error) -> LineError {
    (None, error.to_string())
}

fn decide_call(call: Call<'_>) -> Result<Decision, Error> {
    match call.try_now() {
        Err(tidegate::Error::WouldBlock) => wait(call.into_future()),
        answer => answer,
    }
}

/// Polls a future to its end. Every store here blocks, so its future is ready.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
        std::thread::yield_now();
    }
}
