//! What a peer may send beside messages.

use tidegate_core::{Cost, Op, Quota, State, Timestamp, step};

use super::super::{Code, close};
use super::Ending;
use crate::seconds;

/// What comes before the limits, or does not get that far: pings, pongs, frames that are no messages. Each costs little,
/// but nobody needs many.
pub(super) struct Noise {
    quota: Quota,
    state: State,
}

impl Noise {
    const A_SECOND: u64 = 20;
    const AT_ONCE: u64 = 200;

    pub(super) fn new() -> Self {
        let quota = Quota::token_bucket(Self::A_SECOND, seconds(1)).and_then(|quota| quota.capacity(Self::AT_ONCE));
        Noise { quota: quota.expect("two numbers above 0"), state: State::New }
    }

    /// Counts one.
    pub(super) fn count(&mut self, now: Timestamp) -> Result<(), Ending> {
        let counted = step(&self.quota, &mut self.state, Op::Limit(Cost::ONE), now);
        if counted.decision.allowed() { Ok(()) } else { Err(Ending::close(close::POLICY, Self::reason())) }
    }

    fn reason() -> String {
        format!("{}: too many frames that are no messages", Code::ResourceExhausted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_borne_and_a_flood_is_not() {
        let mut noise = Noise::new();
        let now = Timestamp::from_millis(1_000_000);
        let borne = (0..1_000).take_while(|_| noise.count(now).is_ok()).count();
        assert_eq!(borne, 200);
        assert!(noise.count(now.saturating_add(seconds(1))).is_ok(), "it is forgotten in time");
    }
}
