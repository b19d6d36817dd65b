//! The contract of `Controller`, tested on all controllers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_core::{Timestamp, millis};
use tidegate_testkit::Random;

use super::{Aimd, Controller, Gradient2, Sample, Vegas};

/// The latency without load of the simulated server.
const UNLOADED_MICROS: u64 = 10_000;

/// Returns all controllers, with these bounds.
fn all(min: u32, initial: u32, max: u32) -> [(&'static str, Box<dyn Controller>); 3] {
    [
        ("aimd", Box::new(Aimd::default().min(min).initial(initial).max(max).target(millis(11)))),
        ("gradient2", Box::new(Gradient2::default().min(min).initial(initial).max(max))),
        ("vegas", Box::new(Vegas::default().min(min).initial(initial).max(max))),
    ]
}

/// A simulated server, whose work ends in sequence on its own clock.
struct Simulation {
    now: u64,
    random: Random,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        Simulation { now: 1_000_000_000, random: Random::new(seed) }
    }

    fn sample(&mut self, controller: &mut dyn Controller, took: u64, in_flight: u32, dropped: bool) {
        self.now += took / u64::from(in_flight.max(1)) + 1;
        let (started, ended) = (Timestamp::from_micros(self.now - took), Timestamp::from_micros(self.now));
        controller.observe(&Sample { started, ended, in_flight, dropped });
    }

    /// Runs as much work as the limit allows on a server that works on `knee` at once, and queues the rest.
    fn load(&mut self, controller: &mut dyn Controller, knee: u32, alone: u64, samples: u32) {
        for _ in 0..samples {
            let in_flight = controller.limit();
            let took = alone * u64::from(in_flight.max(knee)) / u64::from(knee);
            let noise = self.random.between(80, 120);
            self.sample(controller, took * noise / 100, in_flight, false);
        }
    }
}

#[test]
fn limit_stays_within_its_bounds() {
    for seed in 0..50 {
        let mut bench = Simulation::new(seed);
        let min = bench.random.between(0, 30) as u32;
        let max = bench.random.between(0, 300) as u32;
        let initial = bench.random.between(0, 400) as u32;
        let (least, most) = (min.max(1), max.max(min).max(1));
        for (name, mut controller) in all(min, initial, max) {
            assert_eq!(controller.limit(), initial.min(max).max(least), "{name} begins at the bound that is nearest");
            for _ in 0..5_000 {
                let took = bench.random.of_bits(0, 40);
                let in_flight = bench.random.between(0, 2 * u64::from(most)) as u32;
                let dropped = bench.random.one_in(10);
                bench.sample(&mut controller, took.min(bench.now / 2), in_flight, dropped);
                assert!(
                    (least..=most).contains(&controller.limit()),
                    "{name} with seed {seed}: {}",
                    controller.limit()
                );
            }
        }
    }
}

#[test]
fn limit_does_not_grow_while_little_is_in_flight() {
    for seed in 0..20 {
        let mut bench = Simulation::new(seed);
        let initial = bench.random.between(4, 100) as u32;
        for (name, mut controller) in all(1, initial, 1_000) {
            for _ in 0..20_000 {
                let in_flight = bench.random.between(1, u64::from(controller.limit() - 1) / 2) as u32;
                let took = bench.random.between(UNLOADED_MICROS / 2, UNLOADED_MICROS * 3 / 2);
                bench.sample(&mut controller, took, in_flight, false);
                assert!(controller.limit() <= initial, "{name} with seed {seed}: {}", controller.limit());
            }
        }
    }
}

#[test]
fn limit_grows_while_work_is_fast_and_rejected() {
    for (name, mut controller) in all(1, 1, 1_000) {
        Simulation::new(1).load(&mut controller, 1_000, UNLOADED_MICROS, 40_000);
        assert!(controller.limit() >= 50, "{name}: {}", controller.limit());
    }
}

#[test]
fn wasted_work_reduces_the_limit_to_its_minimum() {
    for (name, mut controller) in all(3, 100, 1_000) {
        let mut bench = Simulation::new(1);
        for sample in 0..970 {
            let in_flight = controller.limit();
            bench.sample(&mut controller, 1_000_000, in_flight, true);
            assert!(sample > 99 || controller.limit() >= 90, "{name}: a round of wasted work takes off a tenth");
        }
        assert_eq!(controller.limit(), 3, "{name}");
    }
}

#[test]
fn limit_recovers_after_an_outage() {
    for (name, mut controller) in all(1, 20, 1_000) {
        let mut bench = Simulation::new(7);
        bench.load(&mut controller, 40, UNLOADED_MICROS, 20_000);
        let before = controller.limit();
        for _ in 0..2_000 {
            bench.sample(&mut controller, 5_000_000, 10, true);
        }
        assert_eq!(controller.limit(), 1, "{name}");
        bench.load(&mut controller, 40, UNLOADED_MICROS, 8_000);
        assert!(controller.limit() * 10 >= before * 8, "{name}: {} after {before}", controller.limit());
    }
}

/// Fast errors look like fast work, and then all work looks queued.
#[test]
fn outage_of_fast_errors_is_soon_forgotten() {
    for (name, mut controller) in all(1, 20, 1_000) {
        let mut bench = Simulation::new(7);
        bench.load(&mut controller, 40, UNLOADED_MICROS, 20_000);
        bench.load(&mut controller, 40, UNLOADED_MICROS / 100, 60_000);
        let mut at_least = 0;
        for _ in 0..2_000 {
            bench.load(&mut controller, 40, UNLOADED_MICROS, 1);
            at_least += u32::from(controller.limit() < 5);
        }
        assert!(at_least < 50, "{name}: {at_least} one after the other");
    }
}

/// Of work that begins together, fast work ends first: a few samples of it are not the mean latency.
#[test]
fn work_of_two_speeds_is_not_mistaken_for_the_fast_one() {
    let [_, gradient2, vegas] = all(1, 20, 1_000);
    for (name, mut controller) in [gradient2, vegas] {
        let mut bench = Simulation::new(7);
        let (mut under_way, mut done) = (BinaryHeap::new(), 0_u64);
        let mut free_at = [bench.now; 20];
        for _ in 0..60_000 {
            // As many as the limit allows, in front of twenty workers: one in five takes a hundred times as long.
            while under_way.len() < controller.limit() as usize {
                let worker = free_at.iter_mut().min().expect("there are some");
                let took = if bench.random.one_in(5) { UNLOADED_MICROS * 10 } else { UNLOADED_MICROS / 10 };
                *worker = (*worker).max(bench.now) + took;
                under_way.push(Reverse((*worker, bench.now)));
            }
            let in_flight = under_way.len() as u32;
            let Some(Reverse((ended, started))) = under_way.pop() else { panic!("work is in flight") };
            bench.now = ended;
            let [started, ended] = [started, ended].map(Timestamp::from_micros);
            controller.observe(&Sample { started, ended, in_flight, dropped: false });
            done += 1;
        }
        let most = (bench.now - 1_000_000_000) * 20 / (UNLOADED_MICROS * 10 / 5 + UNLOADED_MICROS / 10 * 4 / 5);
        assert!(done * 4 > most * 3, "{name}: {done} of {most}");
    }
}

#[test]
fn latency_of_wasted_work_is_ignored() {
    for (name, mut controller) in all(1, 20, 1_000) {
        let mut bench = Simulation::new(7);
        // Half of the work is lost at once, which says nothing about how quick the server is. Neither do those that hang.
        for round in 0..20_000 {
            let in_flight = controller.limit();
            bench.sample(&mut controller, if round % 2 == 0 { 1 } else { 30_000_000 }, in_flight, true);
        }
        bench.load(&mut controller, 40, UNLOADED_MICROS, 30_000);
        assert!((32..=48).contains(&controller.limit()), "{name}: {}", controller.limit());
    }
}

#[test]
fn server_that_became_slower_is_learned_again() {
    let [_, gradient2, vegas] = all(1, 20, 1_000);
    for (name, mut controller) in [gradient2, vegas] {
        let mut bench = Simulation::new(3);
        bench.load(&mut controller, 40, UNLOADED_MICROS, 20_000);
        bench.load(&mut controller, 40, 3 * UNLOADED_MICROS, 20_000);
        assert!((32..=48).contains(&controller.limit()), "{name}, slower: {}", controller.limit());
        bench.load(&mut controller, 40, UNLOADED_MICROS, 20_000);
        assert!((32..=48).contains(&controller.limit()), "{name}, quicker again: {}", controller.limit());
    }
}

#[test]
fn lasting_overload_is_not_learned_as_normal() {
    for (name, mut controller) in all(1, 200, 1_000) {
        let mut bench = Simulation::new(5);
        bench.load(&mut controller, 10, UNLOADED_MICROS, 1_000_000);
        assert!((8..=12).contains(&controller.limit()), "{name}: {}", controller.limit());
    }
}

#[test]
fn clock_set_back_does_not_stop_a_controller() {
    for (name, mut controller) in all(1, 5, 1_000) {
        let mut bench = Simulation::new(9);
        bench.load(&mut controller, 10, UNLOADED_MICROS, 2_000);
        bench.now -= 900_000_000;
        bench.load(&mut controller, 60, UNLOADED_MICROS, 10_000);
        assert!(controller.limit() >= 40, "{name}: {}", controller.limit());
    }
}

#[test]
fn invalid_settings_count_as_the_nearest_valid_ones() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300] {
        let gradient2 = Gradient2::default().smoothing(odd).tolerance(odd).headroom(odd).back_off(odd).long_window(0);
        let vegas = Vegas::default().smoothing(odd).headroom(odd).back_off(odd).long_window(0);
        let controllers: [Box<dyn Controller>; 3] =
            [Box::new(Aimd::default().back_off(odd)), Box::new(gradient2), Box::new(vegas)];
        for mut controller in controllers {
            let mut bench = Simulation::new(2);
            bench.load(&mut controller, 30, UNLOADED_MICROS, 5_000);
            bench.sample(&mut controller, UNLOADED_MICROS, 10, true);
            assert!((1..=1_000).contains(&controller.limit()), "{odd}: {}", controller.limit());
        }
    }
}
