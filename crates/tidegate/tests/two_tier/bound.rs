//! The bound: schedules that reach it exactly, and random ones, none of which may pass it.

use tidegate::{Algorithm, Quota, hours, millis, minutes, seconds};
use tidegate_testkit::Random;

use crate::fleet::{Fleet, FleetConfig};
use crate::support::settle;

/// The clocks of one to four processes, up to 1 part in 256 slower or faster than the store's.
const CLOCK_RATES: [&[u64]; 4] = [&[256], &[255, 257], &[257, 255, 256], &[255, 256, 257, 255]];

/// 800 units, replenished in half a second: before a balance is idle.
fn bucket() -> Quota {
    Quota::token_bucket(1_600, seconds(1)).unwrap().capacity(800).unwrap()
}

/// Every process holds a full balance, and the bucket is full again: all of that is admitted at one time.
#[tokio::test]
async fn full_balances_and_a_full_bucket_reach_the_bound() {
    // As many processes as expected, more of them, and one.
    let cases: [(&'static [u64], u32); 3] = [(&[255, 256, 257, 256], 4), (&[256; 6], 4), (&[255], 1)];
    for (clock_rates, expected_replicas) in cases {
        let fleet = FleetConfig::new(bucket(), clock_rates, expected_replicas).build();
        for number in fleet.numbers() {
            fleet.fill(number).await;
            // Until the bucket is full again.
            fleet.advance(seconds(1) * fleet.batch as u32 / 1_600).await;
        }
        let balances = clock_rates.len() as u64 * fleet.batch;
        assert_eq!(fleet.drain().await, 800 + balances, "{clock_rates:?}");
        for _ in 0..100 {
            fleet.advance(millis(10)).await;
            fleet.drain().await;
        }
        fleet.check_bound(balances).unwrap();
        // The check would have seen one unit more.
        assert!(fleet.check_bound(balances - 1).is_err());
    }
}

/// Without an answer, a return counts as held until it must have arrived: a process that could fill its balance meanwhile
/// would add a batch.
#[tokio::test]
async fn return_that_later_calls_overtake_counts_as_held() {
    let clock_rates = &[255, 256, 257, 256];
    let fleet = FleetConfig::new(bucket(), clock_rates, 8).build();
    let balances = clock_rates.len() as u64 * fleet.batch;
    for number in fleet.numbers() {
        fleet.fill(number).await;
        fleet.delay_calls(number, seconds(4));
    }
    // The idle balances are returned after a second. The timeout ends the calls, and yet they are on their way.
    fleet.advance_in_steps(millis(4_500), millis(50)).await;
    for number in fleet.numbers() {
        fleet.delay_calls(number, seconds(0));
        fleet.fill(number).await;
    }
    // The bucket is full again, and everything there is is spent: before the returns arrive and after.
    fleet.advance_in_steps(millis(450), millis(50)).await;
    assert!(fleet.drain().await >= 800);
    fleet.advance_in_steps(millis(150), millis(50)).await;
    assert!(fleet.drain().await >= balances);
    fleet.check_bound(balances).unwrap();
    assert!(fleet.check_bound(balances - 1).is_err(), "the schedule reaches the bound");
    // Later, when no return can be on its way, batches are taken again.
    fleet.advance_in_steps(seconds(12), millis(50)).await;
    fleet.fill(0).await;
    assert_eq!(fleet.spend_balance(0), fleet.batch);
}

/// The network delays a return for more than five seconds.
#[tokio::test]
async fn return_delayed_past_its_window_counts_for_the_next() {
    let limit = 400;
    let fleet = FleetConfig::new(Quota::fixed_window(limit, minutes(1)).unwrap(), &[256], 4).build();
    fleet.advance(seconds(50)).await;
    fleet.fill(0).await;
    fleet.delay_calls(0, seconds(10));
    // It is returned while 8 seconds are left, and arrives 2 seconds after the end.
    fleet.advance_in_steps(seconds(2), millis(50)).await;
    fleet.delay_calls(0, seconds(0));
    fleet.advance_in_steps(millis(8_500), millis(50)).await;
    assert_eq!(fleet.drain().await, limit);
    fleet.advance(seconds(2)).await;
    assert_eq!(fleet.drain().await, fleet.batch, "the late return");
    fleet.advance_in_steps(seconds(40), millis(50)).await;
    assert_eq!(fleet.drain().await, 0, "once");
}

/// A balance that is kept to the end of its window, by a clock that runs slower and slower than the store's.
#[tokio::test]
async fn units_of_a_window_expire_in_time_by_clocks_up_to_one_part_in_256_apart() {
    let cases: [(&'static [u64], bool); 4] = [(&[257], true), (&[256], true), (&[255], true), (&[254], false)];
    for (clock_rates, holds) in cases {
        let quota = Quota::fixed_window(400, minutes(1)).unwrap();
        let fleet = FleetConfig { idle_after: hours(1), ..FleetConfig::new(quota, clock_rates, 4) }.build();
        fleet.fill(0).await;
        fleet.advance(minutes(1)).await;
        let extra = fleet.spend_balance(0);
        assert_eq!(extra, if holds { 0 } else { fleet.batch }, "{clock_rates:?}");
        assert_eq!(fleet.drain().await, 400);
    }
}

#[tokio::test]
async fn random_schedules_stay_within_the_bound() {
    let seeds = std::env::var("TIDEGATE_ORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(12);
    let mut beyond_quota = 0;
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let quota = random_quota(&mut random);
        let clock_rates = random.pick(&CLOCK_RATES);
        let config = FleetConfig::new(quota, clock_rates, random.between(1, 4) as u32);
        let config = FleetConfig { timeout: random.pick(&[millis(50), millis(500), seconds(10)]), ..config };
        let fleet = config.build();
        for _ in 0..300 {
            random_step(&fleet, &mut random).await;
        }
        let is_bucket = quota.algorithm() == Algorithm::TokenBucket;
        let balances = if is_bucket { clock_rates.len() as u64 * fleet.batch } else { 0 };
        fleet.check_bound(balances).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        beyond_quota += u64::from(is_bucket && fleet.check_bound(0).is_err());
    }
    // Otherwise every unit was spent when it was taken, and the check would show nothing.
    assert!(beyond_quota > seeds / 20, "{beyond_quota} of {seeds}");
}

fn random_quota(random: &mut Random) -> Quota {
    let capacity = random.between(8, 200);
    let span = random.pick(&[millis(500), seconds(1), seconds(3), seconds(20)]);
    let quota = match random.below(4) {
        0 => Quota::fixed_window(capacity, span),
        1 => Quota::sliding_window(capacity, span * 2).and_then(|quota| quota.buckets(2)),
        _ => Quota::token_bucket(capacity, span),
    };
    quota.unwrap()
}

async fn random_step(fleet: &Fleet, random: &mut Random) {
    let number = random.below(fleet.numbers().end as u64) as usize;
    match random.below(20) {
        0 => drop(fleet.drain().await),
        // Less than the five seconds that the network may delay a return, by the steps in which time passes.
        1 => fleet.delay_calls(number, random.pick(&[millis(0), millis(0), millis(60), seconds(1), millis(4_800)])),
        2..=4 => {
            // The client disconnects: what was fetched for it stays in the balance.
            let request = fleet.send(number, random.between(1, fleet.batch));
            tokio::task::yield_now().await;
            request.abort();
        }
        5..=6 => fleet.advance_in_steps(seconds(1) * random.between(1, 3) as u32, millis(100)).await,
        7..=11 => fleet.advance(millis(random.below(40))).await,
        _ => {
            let units = if random.one_in(4) { random.between(1, fleet.batch) } else { 1 };
            (0..random.between(1, 8)).for_each(|_| drop(fleet.send(number, units)));
        }
    }
    settle().await;
}
