//! Tokens of holds: settled once in any process, and harmless when they are forged.

use std::sync::Arc;

use tidegate::budget::{Budget, Hold, HoldTokenError, Settlement};
use tidegate::{Clock, Key, Limit, Limiter, ManualClock, MemoryStore, Normalize, Quota, Timestamp, minutes, seconds};
use tidegate_testkit::{Random, block_on};

const CAPACITY: u64 = 100_000;

/// Processes on one store, each with its own limiter.
struct Fleet {
    store: Arc<MemoryStore>,
    clock: ManualClock,
}

/// A process of the fleet.
struct Process {
    limiter: Limiter,
    budget: Budget,
}

impl Fleet {
    fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
        let store = MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build();
        Fleet { store: Arc::new(store), clock }
    }

    /// A process whose clock is `clock`.
    fn process_on(&self, clock: &ManualClock) -> Process {
        let limiter = Limiter::builder()
            .store(Arc::clone(&self.store))
            .limit("tokens", Quota::token_bucket(CAPACITY, minutes(10)).unwrap())
            .limit("images", Quota::token_bucket(CAPACITY, minutes(10)).unwrap())
            // All spellings of a name share their holds.
            .limit("holds", Limit::new(Quota::concurrency(100, minutes(60)).unwrap()).normalize(Normalize::Lowercase))
            .build()
            .unwrap();
        Process { budget: Budget::with_clock(&limiter, "tokens", "holds", clock.clone()), limiter }
    }

    fn process(&self) -> Process {
        self.process_on(&self.clock)
    }
}

impl Process {
    fn hold(&self, estimate: u64) -> Hold {
        block_on(self.budget.hold("alice", estimate)).unwrap().hold().expect("a hold").clone()
    }

    fn settle(&self, token: &str, cost: u64) -> Settlement {
        block_on(self.budget.resume(token).unwrap().settle(cost)).unwrap()
    }

    fn left(&self) -> u64 {
        self.limiter.check("tokens", "alice").try_now().unwrap().remaining()
    }

    fn open_holds(&self) -> u64 {
        100 - self.limiter.check("holds", "alice").try_now().unwrap().remaining()
    }
}

#[test]
fn token_settles_in_another_process() {
    for cost in [0, 1, 400, 1_000, 2_500] {
        let fleet = Fleet::new();
        let (web, worker) = (fleet.process(), fleet.process());
        let token = web.hold(1_000).to_token().unwrap();
        assert_eq!(worker.settle(&token, cost), Settlement::Full);
        assert_eq!((web.left(), web.open_holds()), (CAPACITY - cost, 0));
    }
}

#[test]
fn second_settlement_from_any_process_changes_nothing() {
    for first_is_worker in [true, false] {
        let fleet = Fleet::new();
        let (web, worker) = (fleet.process(), fleet.process());
        let hold = web.hold(1_000);
        let token = hold.to_token().unwrap();
        let settlement = match first_is_worker {
            true => worker.settle(&token, 300),
            false => block_on(hold.settle(300)).unwrap(),
        };
        assert_eq!(settlement, Settlement::Full);
        for cost in [0, 300, 5_000] {
            for process in [&web, &worker, &fleet.process()] {
                assert_eq!(process.settle(&token, cost), Settlement::Unchanged);
            }
            assert_eq!(block_on(hold.settle(cost)).unwrap(), Settlement::Unchanged);
            // A token that was made afterwards is of the same hold.
            assert_eq!(worker.settle(&hold.to_token().unwrap(), cost), Settlement::Unchanged);
        }
        assert_eq!((web.left(), web.open_holds()), (CAPACITY - 300, 0));
    }
}

#[test]
fn expired_hold_is_unchanged_in_another_process() {
    let fleet = Fleet::new();
    let token = fleet.process().hold(1_000).to_token().unwrap();
    fleet.clock.advance(minutes(60));
    assert_eq!(fleet.process().settle(&token, 0), Settlement::Unchanged);
}

#[test]
fn resumed_hold_can_be_renewed_and_sent_on() {
    let fleet = Fleet::new();
    let mut token = fleet.process().hold(1_000).to_token().unwrap();
    for _ in 0..5 {
        fleet.clock.advance(minutes(40));
        let hold = fleet.process().budget.resume(&token).unwrap();
        assert_eq!(hold.estimate(), 1_000);
        assert!(block_on(hold.renew()).unwrap().allowed());
        token = hold.to_token().unwrap();
    }
    assert_eq!(fleet.process().settle(&token, 0), Settlement::Full);
}

/// An estimate that is refunded after the bucket has refilled would be there twice.
#[test]
fn replenished_units_are_not_refunded_in_another_process() {
    let fleet = Fleet::new();
    let other_clock = ManualClock::new(fleet.clock.now());
    let (web, worker) = (fleet.process(), fleet.process_on(&other_clock));
    let hold = web.hold(CAPACITY);
    fleet.clock.advance(minutes(4));
    let token = hold.to_token().unwrap();
    fleet.clock.advance(minutes(6));
    other_clock.advance(minutes(10));
    assert!(web.limiter.limit("tokens", "alice").cost(CAPACITY).try_now().unwrap().allowed());
    assert_eq!(worker.settle(&token, 0), Settlement::Full);
    assert_eq!(web.left(), 0);
}

/// The stated bound: a late clock credits twice what is replenished in the difference.
#[test]
fn late_clock_of_the_settling_process_is_bounded() {
    let fleet = Fleet::new();
    let late_clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
    let (web, worker) = (fleet.process(), fleet.process_on(&late_clock));
    let token = web.hold(CAPACITY).to_token().unwrap();
    fleet.clock.advance(minutes(10));
    late_clock.advance(minutes(10) - seconds(60));
    assert!(web.limiter.limit("tokens", "alice").cost(CAPACITY).try_now().unwrap().allowed());
    assert_eq!(worker.settle(&token, 0), Settlement::Full);
    assert_eq!(web.left(), CAPACITY / 10);
}

/// The bearer of a token reports the cost, also a wrong one. A forged token gets nothing beyond that.
#[test]
fn forged_token_gives_back_at_most_the_estimate() {
    const ESTIMATE: u64 = 1_000;
    let mut random = Random::new(36);
    let mut settled = 0;
    for round in 0..2_000 {
        let fleet = Fleet::new();
        let process = fleet.process();
        // Keys that the forger would like to have the refund.
        for (limit, key) in [("tokens", "alice"), ("tokens", "ALICE"), ("tokens", "bob"), ("images", "alice")] {
            assert!(process.limiter.limit(limit, key).cost(50_000).try_now().unwrap().allowed());
        }
        let token = process.hold(ESTIMATE).to_token().unwrap();
        fleet.clock.advance(seconds(random.below(3)));
        let before = process.left();
        let mut forged: Vec<Vec<u8>> = token.split('.').map(|field| field.as_bytes().to_vec()).collect();
        // Another estimate, key or limit, or a few digits anywhere.
        match round % 8 {
            0 => forged[2] = b"3e9".to_vec(),
            1 => forged[2] = b"ffffffffffffffff".to_vec(),
            2 => forged[8] = b"414c494345".to_vec(), // ALICE
            3 => forged[8] = b"626f62".to_vec(),     // bob
            _ => {
                for _ in 0..random.between(1, 3) {
                    let field = random.below(forged.len() as u64) as usize;
                    let index = random.below(forged[field].len() as u64) as usize;
                    forged[field][index] = random.pick(b"0123456789abcdef.");
                }
            }
        }
        let forged = forged.join(&b'.');
        if let Ok(hold) = process.budget.resume(std::str::from_utf8(&forged).unwrap()) {
            let settlement = block_on(hold.settle(0)).unwrap();
            settled += u64::from(settlement != Settlement::Unchanged);
            assert!(process.left() <= before + ESTIMATE, "{token} as {}", String::from_utf8_lossy(&forged));
        }
        for (limit, key) in [("tokens", "ALICE"), ("tokens", "bob"), ("images", "alice")] {
            let left = process.limiter.check(limit, key).try_now().unwrap().remaining();
            assert!(left <= 50_000 + 1_000, "{limit} of {key} has {left}"); // 1,000 are replenished at most
        }
        // A forged token that named another lease has not used up the real one.
        let after = process.left();
        if process.settle(&token, 0) == Settlement::Full {
            assert!(process.left() <= after + ESTIMATE);
        }
        assert_eq!(process.open_holds(), 0);
    }
    assert!(settled > 100, "numbers that only lower the refund were changed, too: {settled}");
}

#[test]
fn token_of_another_limit_is_an_error() {
    let fleet = Fleet::new();
    let process = fleet.process();
    let token = process.hold(1_000).to_token().unwrap();
    let images = Budget::with_clock(&process.limiter, "images", "holds", fleet.clock.clone());
    assert_eq!(images.resume(&token).unwrap_err(), HoldTokenError::OtherLimit("images".to_owned()));
    // A token with a forged limit does not match its lease, which is bound to the name of the limit.
    let forged = token.replace("746f6b656e73", "696d61676573");
    assert_eq!(block_on(images.resume(&forged).unwrap().settle(0)).unwrap(), Settlement::Unchanged);
    assert_eq!(process.settle(&token, 0), Settlement::Full);
}

#[test]
fn any_text_is_a_token_or_an_error() {
    let process = Fleet::new().process();
    let mut random = Random::new(36);
    for _ in 0..20_000 {
        let fields: Vec<String> = (0..random.between(0, 11))
            .map(|_| (0..random.below(20)).map(|_| char::from(random.pick(b"0123456789abcdefgA+%"))).collect())
            .collect();
        let text = format!("1.{}", fields.join("."));
        match process.budget.resume(&text) {
            Ok(hold) => assert_eq!(block_on(hold.settle(0)).unwrap(), Settlement::Unchanged, "{text}"),
            Err(error) => assert!(matches!(error, HoldTokenError::Malformed | HoldTokenError::OtherLimit(_)), "{text}"),
        }
    }
}

#[test]
fn hold_of_any_key_has_a_token() {
    let fleet = Fleet::new();
    let process = fleet.process();
    let long = "x".repeat(16_000);
    for key in [Key::GLOBAL, Key::from(("tenant", "Ü|%")), Key::from(&*long)] {
        let hold = block_on(process.budget.hold(&key, 10)).unwrap().hold().expect("a hold").clone();
        assert_eq!(fleet.process().settle(&hold.to_token().unwrap(), 4), Settlement::Full);
        assert_eq!(process.limiter.check("tokens", &key).try_now().unwrap().remaining(), CAPACITY - 4);
    }
    let longer = "x".repeat(17_000);
    let hold = block_on(process.budget.hold(&longer, 10)).unwrap().hold().expect("a hold").clone();
    assert!(matches!(hold.to_token(), Err(HoldTokenError::TooLong(34_000..))));
    assert_eq!(block_on(hold.settle(0)).unwrap(), Settlement::Full);
}
