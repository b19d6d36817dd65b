//! Calls of a limiter inside a transaction of the caller's.

use tidegate_core::{Decision, JointDecision};

use super::{Call, Error, batch};
#[cfg(feature = "postgres")]
use crate::postgres;
#[cfg(feature = "sqlite")]
use crate::sqlite;

#[cfg(feature = "postgres")]
impl postgres::InTransaction<'_> {
    /// Decides a call of any limiter in this transaction. An [`acquire`](crate::Limiter::acquire) is rejected, because
    /// its wait would keep the transaction open.
    pub async fn apply(&self, call: Call<'_>) -> Result<Decision, Error> {
        Ok(call.decide_on(self).await?.decision)
    }

    /// Takes from several limits all or nothing, as [`Limiter::limit_all`](crate::Limiter::limit_all) does.
    pub async fn limit_all<'a>(&self, calls: impl IntoIterator<Item = Call<'a>>) -> Result<JointDecision, Error> {
        let calls: Vec<_> = calls.into_iter().collect();
        batch::limit_all_on(&calls, self).await
    }
}

#[cfg(feature = "sqlite")]
impl sqlite::InTransaction<'_> {
    /// Decides a call of any limiter in this transaction. An [`acquire`](crate::Limiter::acquire) is rejected, because
    /// its wait would keep the transaction open.
    pub fn apply(&self, call: Call<'_>) -> Result<Decision, Error> {
        Ok(tidegate_core::private::poll_once(call.decide_on(self))?.decision)
    }

    /// Takes from several limits all or nothing, as [`Limiter::limit_all`](crate::Limiter::limit_all) does.
    pub fn limit_all<'c>(&self, calls: impl IntoIterator<Item = Call<'c>>) -> Result<JointDecision, Error> {
        let calls: Vec<_> = calls.into_iter().collect();
        tidegate_core::private::poll_once(batch::limit_all_on(&calls, self))
    }
}
