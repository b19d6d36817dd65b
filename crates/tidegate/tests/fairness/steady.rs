//! Shares under a steady demand: work ends in the order of its beginning, and every caller returns at once.

use std::collections::VecDeque;

use tidegate::concurrency::{FairConcurrency, Permit};
use tidegate::days;
use tidegate_testkit::Random;

use crate::crowd::{Crowd, clock, fair};

/// Tenants that keep a constant number of callers.
struct SteadyDemand {
    fair: FairConcurrency,
    crowd: Crowd,
    weights: Vec<u32>,
    /// The number of requests that each tenant wants in flight.
    wants: Vec<u32>,
    /// The number of requests of each tenant in flight or waiting.
    demand: Vec<u32>,
    /// The tenant of each caller, by number.
    callers: Vec<usize>,
    permits: VecDeque<(usize, Permit)>,
}

impl SteadyDemand {
    fn new(limit: u32, weights: Vec<u32>, wants: Vec<u32>) -> Self {
        let mut builder = fair(limit, &clock()).queue(100);
        for (tenant, weight) in weights.iter().enumerate() {
            builder = builder.weight(tenant, *weight);
        }
        let demand = vec![0; weights.len()];
        let (crowd, callers, permits) = Default::default();
        let mut steady = SteadyDemand { fair: builder.build(), crowd, weights, wants, demand, callers, permits };
        steady.fill();
        steady
    }

    fn fill(&mut self) {
        for tenant in 0..self.wants.len() {
            while self.demand[tenant] < self.wants[tenant] {
                self.demand[tenant] += 1;
                self.callers.push(tenant);
                self.crowd.join(&self.fair, &tenant.to_string(), days(1));
            }
        }
    }

    /// Ends the oldest work, whose tenant gets a new caller, and starts the caller that gets the slot. Returns its
    /// tenant.
    fn rotate(&mut self) -> Vec<usize> {
        self.collect();
        let (tenant, permit) = self.permits.pop_front().expect("something is in flight");
        self.demand[tenant] -= 1;
        self.fill();
        drop(permit);
        self.collect()
    }

    fn collect(&mut self) -> Vec<usize> {
        self.crowd.run();
        let permits: Vec<_> =
            self.crowd.permits().into_iter().map(|(caller, permit)| (self.callers[caller], permit)).collect();
        let served = permits.iter().map(|(tenant, _)| *tenant).collect();
        self.permits.extend(permits);
        served
    }
}

#[test]
fn steady_demand_is_shared_by_guarantee_then_by_load() {
    let mut random = Random::new(5);
    for _ in 0..150 {
        let limit = random.between(1, 12) as u32;
        let weights: Vec<u32> = (0..random.between(1, 5)).map(|_| random.between(1, 9) as u32).collect();
        let wants: Vec<u32> = weights.iter().map(|_| random.between(1, 12) as u32).collect();
        let mut steady = SteadyDemand::new(limit, weights, wants);
        for _ in 0..limit * 8 {
            steady.rotate();
        }
        let weights: u32 = steady.weights.iter().sum();
        let tenants: Vec<_> = steady
            .weights
            .iter()
            .zip(&steady.wants)
            .enumerate()
            .map(|(tenant, (weight, wants))| {
                let has = steady.fair.share(tenant).unwrap().in_flight;
                (*weight, *wants, weight * limit / weights, has)
            })
            .collect();
        for (_, wants, guarantee, has) in &tenants {
            assert!(has >= wants.min(guarantee), "below its guarantee: {limit}, {tenants:?}");
        }
        let to_reserved: u32 = tenants.iter().map(|(.., guarantee, has)| guarantee.max(has)).sum();
        let all_have_what_they_want = tenants.iter().all(|(_, wants, _, has)| has == wants);
        assert!(to_reserved == limit || all_have_what_they_want, "left unused: {limit}, {tenants:?}");
        // Max-min: no borrowed slot would be fairer with another tenant.
        for (weight, _, _, has) in tenants.iter().filter(|(_, wants, _, has)| has < wants) {
            for (other_weight, _, _, other_has) in tenants.iter().filter(|(.., guarantee, has)| has > guarantee) {
                assert!((other_has - 1) * weight <= has * other_weight, "{limit}, {tenants:?}");
            }
        }
    }
}

#[test]
fn no_tenant_starves_under_permanent_demand() {
    let mut random = Random::new(6);
    for _ in 0..100 {
        let limit = random.between(1, 10) as u32;
        // Often more tenants than slots, so that most have a guarantee of 0.
        let weights: Vec<u32> = (0..random.between(2, 12)).map(|_| random.between(1, 9) as u32).collect();
        let tenants = weights.len();
        let mut steady = SteadyDemand::new(limit, weights, vec![limit + 1; tenants]);
        let mut hungry = vec![0; tenants];
        for _ in 0..limit as usize * (tenants + 1) * 3 {
            let served = steady.rotate();
            hungry.iter_mut().for_each(|turns| *turns += 1);
            served.into_iter().for_each(|tenant| hungry[tenant] = 0);
            // In `limit` turns all work in flight has ended once, and some of its slots could be borrowed.
            let bound = limit as usize * (tenants + 1);
            assert!(hungry.iter().all(|turns| *turns <= bound), "{limit}, {:?}: {hungry:?}", steady.weights);
        }
    }
}
