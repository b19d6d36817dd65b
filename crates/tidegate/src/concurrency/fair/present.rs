//! Who is present.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;

use super::builder::Terms;
use super::tenant::Tenant;

/// The tenants who are present, each at a place of its own for as long as it is: a number that permits and those who wait
/// can keep. Bounded: beyond [`Terms::max_tenants`], those without a weight of their own share one more place.
pub(super) struct Present {
    places: Vec<Option<Tenant>>,
    empty: Vec<usize>,
    by_name: HashMap<Arc<str>, usize>,
    /// The place that is shared, while somebody is there.
    others: Option<usize>,
    /// How many have a place without a weight of their own, the shared place not counted.
    unknown: usize,
    /// The sum over all.
    pub(super) weights: u64,
    /// Since when a tenant may have been idle: once for each, and never later than it has been.
    checks: BinaryHeap<Reverse<(Timestamp, usize)>>,
}

impl Present {
    pub(super) fn new() -> Self {
        Present {
            places: Vec::new(),
            empty: Vec::new(),
            by_name: HashMap::new(),
            others: None,
            unknown: 0,
            weights: 0,
            checks: BinaryHeap::new(),
        }
    }

    /// Where a tenant is, if it is here.
    pub(super) fn find(&self, name: &str, terms: &Terms) -> Option<usize> {
        self.by_name.get(name).copied().or_else(|| {
            let shares = !terms.weights.contains_key(name) && self.unknown >= terms.max_tenants;
            self.others.filter(|_| shares)
        })
    }

    /// Lets a tenant in who was not found. Its guarantee, and everybody else's, is to be worked out anew.
    pub(super) fn add(&mut self, name: &str, terms: &Terms, now: Timestamp) -> usize {
        let own_weight = terms.weights.get(name).copied();
        let has_place = own_weight.is_some() || self.unknown < terms.max_tenants;
        let name = has_place.then(|| Arc::<str>::from(name));
        let id = self.empty.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        match &name {
            Some(name) => _ = self.by_name.insert(Arc::clone(name), id),
            None => self.others = Some(id),
        }
        self.unknown += usize::from(has_place && own_weight.is_none());
        let weight = own_weight.unwrap_or(terms.default_weight);
        self.weights += u64::from(weight);
        let waiting = BTreeMap::new();
        let tenant = Tenant { name, weight, guarantee: 0, in_flight: 0, waiting, served: 0, seen: now };
        self.places[id] = Some(tenant);
        self.checks.push(Reverse((now, id)));
        id
    }

    /// Forgets who is gone by now. Says whether anybody was: then guarantees are to be worked out anew.
    pub(super) fn forget_gone(&mut self, terms: &Terms, now: Timestamp) -> bool {
        let before = self.len();
        let is_over = |since: Timestamp| now.since(since) >= terms.idle_after;
        while let Some(Reverse((_, id))) = self.checks.peek().copied().filter(|Reverse((since, _))| is_over(*since)) {
            self.checks.pop();
            // Whoever is busy will be idle from now on at the earliest.
            let since = if self[id].is_idle() { self[id].seen } else { now };
            if is_over(since) {
                self.remove(id, terms);
            } else {
                self.checks.push(Reverse((since, id)));
            }
        }
        self.len() < before
    }

    fn remove(&mut self, id: usize, terms: &Terms) {
        let tenant = self.places[id].take().expect("whoever is checked is present");
        self.empty.push(id);
        self.weights -= u64::from(tenant.weight);
        match tenant.name {
            Some(name) => {
                self.by_name.remove(&name);
                self.unknown -= usize::from(!terms.weights.contains_key(&*name));
            }
            None => self.others = None,
        }
    }

    /// How long until somebody could be gone.
    pub(super) fn next_check(&self, terms: &Terms, now: Timestamp) -> Duration {
        let idle = self.checks.peek().map_or(Duration::ZERO, |Reverse((since, _))| now.since(*since));
        terms.idle_after.saturating_sub(idle)
    }

    /// Everybody, with their places.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Tenant)> {
        self.places.iter_mut().enumerate().filter_map(|(id, tenant)| Some((id, tenant.as_mut()?)))
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.empty.len()
    }
}

impl Index<usize> for Present {
    type Output = Tenant;

    fn index(&self, id: usize) -> &Tenant {
        self.places[id].as_ref().expect("a tenant is present while it is spoken of")
    }
}

impl IndexMut<usize> for Present {
    fn index_mut(&mut self, id: usize) -> &mut Tenant {
        self.places[id].as_mut().expect("a tenant is present while it is spoken of")
    }
}
