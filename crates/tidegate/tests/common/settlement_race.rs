//! Processes that settle one hold at the same time, each by its token.

use std::process::Command;

use tidegate::budget::{Budget, Settlement};
use tidegate::{Limiter, LimiterBuilder, MAX_PERIOD, Quota, minutes};

const CAPACITY: u64 = 10_000;
const ESTIMATE: u64 = 1_000;

/// The processes, and the holds that each of them settles.
const PROCESSES: u64 = 4;
const HOLDS: u64 = 25;

/// Set for a child: the tokens of all holds.
const TOKENS: &str = "TIDEGATE_TEST_TOKENS";

/// Limits without a store. Nothing is replenished meanwhile.
pub(crate) fn limits() -> LimiterBuilder {
    let tokens = Quota::token_bucket(1, MAX_PERIOD).and_then(|quota| quota.capacity(CAPACITY)).unwrap();
    Limiter::builder().limit("tokens", tokens).limit("holds", Quota::concurrency(HOLDS, minutes(60)).unwrap())
}

/// Takes holds, has all processes settle them with costs of their own, and checks that each is settled once.
pub(crate) async fn assert_each_is_settled_once(limiter: &Limiter, child: impl Fn() -> Command) {
    let budget = Budget::new(limiter, "tokens", "holds");
    let mut tokens = Vec::new();
    for user in 0..HOLDS {
        let held = budget.hold(user, ESTIMATE).await.unwrap();
        tokens.push(held.hold().expect("a hold").to_token().unwrap());
    }
    let spawn = || child().env(TOKENS, tokens.join(" ")).spawn().unwrap();
    let children: Vec<_> = (0..PROCESSES).map(|_| spawn()).collect();
    let mut costs = [const { Vec::new() }; HOLDS as usize];
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find_map(|line| line.split_once("settled ")).expect("what it settled").1;
        for settlement in line.split_whitespace() {
            let (user, cost) = settlement.split_once('=').unwrap();
            costs[user.parse::<usize>().unwrap()].push(cost.parse::<u64>().unwrap());
        }
    }
    for (user, (costs, token)) in (0..HOLDS).zip(costs.iter().zip(tokens)) {
        let [cost] = **costs else { panic!("{user} was settled with {costs:?}") };
        assert_eq!(budget.resume(&token).unwrap().settle(0).await.unwrap(), Settlement::Unchanged);
        assert_eq!(limiter.check("tokens", user).await.unwrap().remaining(), CAPACITY - cost);
        assert_eq!(limiter.check("holds", user).await.unwrap().remaining(), HOLDS);
    }
}

/// Settles the holds as one of the processes, and prints those of which it was the first.
#[allow(clippy::print_stdout)] // the parent reads it
pub(crate) async fn settle_all(limiter: &Limiter) {
    let budget = Budget::new(limiter, "tokens", "holds");
    let tokens = std::env::var(TOKENS).unwrap();
    let mut settled = String::new();
    for (user, token) in tokens.split(' ').enumerate() {
        // Below and above the estimate.
        let cost = u64::from(std::process::id()) % (2 * ESTIMATE);
        match budget.resume(token).unwrap().settle(cost).await.unwrap() {
            Settlement::Full => settled += &format!(" {user}={cost}"),
            settlement => assert_eq!(settlement, Settlement::Unchanged),
        }
    }
    println!("settled {settled}");
}
