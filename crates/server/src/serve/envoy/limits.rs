//! Who is asked about the limits that a request meets.

use tidegate::{All, Decision, Error};

use super::Asked;
use super::decide::{Verdict, decide};
use crate::serve::gate::{Ask, Gate};

/// Who is asked about the limits that a request meets: those that are served, or those of a replay.
pub(crate) trait Limits {
    /// The answer to one question.
    async fn ask(&self, ask: &Ask<'_>) -> Result<Decision, Error>;

    /// Takes all or nothing.
    async fn all(&self, asks: &[Ask<'_>]) -> Result<All, Error>;

    /// Hears what a rule of 0 requests has decided: it has no limit that could be asked this.
    fn decided(&self, ask: &Ask<'_>, decision: Decision);
}

impl Limits for Gate {
    async fn ask(&self, ask: &Ask<'_>) -> Result<Decision, Error> {
        match self.now(ask) {
            Some(answer) => answer,
            None => Gate::ask(self, ask).await,
        }
    }

    async fn all(&self, asks: &[Ask<'_>]) -> Result<All, Error> {
        Gate::all(self, asks).await
    }

    fn decided(&self, ask: &Ask<'_>, decision: Decision) {
        self.watch.saw(ask, &Ok(decision));
    }
}

/// How many configs a request sees come and go before it is given up.
const TRIES: usize = 10;

/// Decides by the rules as they are served now.
pub(crate) async fn decide_served(gate: &Gate, domain: &str, asked: &[Asked<'_>]) -> Result<Verdict, Error> {
    for _ in 1..TRIES {
        let served = gate.served.load_full();
        match decide(gate, &served.domains, domain, asked).await {
            // The limits are replaced first and the rules then: in between, a rule's limit may be gone.
            Err(Error::UnknownLimit(_)) => gate.adopted().await,
            answer => return answer,
        }
    }
    decide(gate, &gate.served.load_full().domains, domain, asked).await
}
