//! Testing your own code without sleeping: a clock that the test moves.
//!
//! `cargo run -p tidegate-examples --example manual_clock`

use std::error::Error;

use tidegate::{Limiter, ManualClock, MemoryStore, Quota, Timestamp, minutes, seconds};

/// The code under test. It takes a limiter and needs no clock.
struct Login {
    limiter: Limiter,
}

impl Login {
    async fn attempt(&self, user: &str, password: &str) -> Result<&'static str, tidegate::Error> {
        let decision = self.limiter.limit("login", user).await?;
        Ok(match (decision.allowed(), password) {
            (false, _) => "too many attempts",
            (true, "correct horse") => "welcome",
            (true, _) => "wrong password",
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Ten seconds before a window ends: windows begin at whole minutes.
    let clock = ManualClock::new(Timestamp::from_millis(50_000));
    let limiter = Limiter::builder()
        .limit("login", Quota::fixed_window(3, minutes(1))?)
        .store(MemoryStore::builder().clock(clock.clone()).build())
        .build()?;
    let login = Login { limiter };

    for password in ["123456", "password", "qwerty"] {
        assert_eq!(login.attempt("alice", password).await?, "wrong password");
    }
    assert_eq!(login.attempt("alice", "correct horse").await?, "too many attempts");
    println!("three wrong passwords: locked out");

    clock.advance(seconds(9));
    assert_eq!(login.attempt("alice", "correct horse").await?, "too many attempts");
    println!("nine seconds later: still locked out");

    clock.advance(seconds(1));
    assert_eq!(login.attempt("alice", "correct horse").await?, "welcome");
    println!("ten seconds later, in the next window: welcome, and the test did not sleep");
    Ok(())
}
