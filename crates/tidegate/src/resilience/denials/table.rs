//! The denials that are remembered: a table of fixed size, whoever asks for however many keys.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Cost, Decision, Request, Timestamp};

use super::denial::Denial;
use crate::keyed_hash::KeyedHash;
use crate::random::secrets;

/// How many keys meet in one place.
const PLACES: usize = 4;

/// The denials, each in one of few places that its key may have.
pub(super) struct Table {
    sets: Box<[Mutex<Set>]>,
    hash: KeyedHash,
}

#[derive(Default)]
struct Set {
    places: [Option<(u64, Denial)>; PLACES],
    /// How often something was given back to a key of this set.
    given_back: u64,
}

/// A key, by its hash, and how often something had been given back when it was asked about.
#[derive(Clone, Copy)]
pub(super) struct Place {
    hash: u64,
    given_back: u64,
}

impl Table {
    /// With room for about so many keys.
    pub(super) fn new(keys: usize) -> Self {
        let sets = (0..keys.div_ceil(PLACES)).map(|_| Mutex::default()).collect();
        Table { sets, hash: KeyedHash::new(secrets()) }
    }

    /// Whether there is room for any.
    pub(super) fn is_off(&self) -> bool {
        self.sets.is_empty()
    }

    /// What a denial of this key says to whoever asks for `cost`; where the key is, when the store has to be asked.
    pub(super) fn answer(&self, request: &Request<'_>, cost: Cost, now: Timestamp) -> Result<Decision, Place> {
        let hash = self.hash.of(request.scope, request.key);
        let set = self.set(hash);
        let denial = set.places.iter().flatten().find(|(known, _)| *known == hash);
        let answer = denial.and_then(|(_, denial)| denial.answer(request.quota, cost, now));
        answer.ok_or(Place { hash, given_back: set.given_back })
    }

    /// Remembers a denial, unless something was given back to the key since it was asked about: then nobody knows which was
    /// first. When there is no place, the one goes that would be forgotten first.
    pub(super) fn remember(&self, place: Place, denial: Denial, now: Timestamp) {
        let mut set = self.set(place.hash);
        if set.given_back != place.given_back {
            return;
        }
        let rank = |held: &Option<(u64, Denial)>| match held {
            Some((hash, _)) if *hash == place.hash => Timestamp::EPOCH,
            Some((_, held)) if held.until() > now => held.until(),
            _ => Timestamp::from_micros(1),
        };
        let Some(held) = set.places.iter_mut().min_by_key(|held| rank(held)) else { return };
        let stays = match held {
            Some((hash, known)) if *hash == place.hash => known.until() > now && denial.is_within(known),
            Some((_, known)) => known.until() > now && known.until() > denial.until(),
            None => false,
        };
        if !stays {
            *held = Some((place.hash, denial));
        }
    }

    /// Forgets what is known about a key, to which something was given back.
    pub(super) fn forget(&self, request: &Request<'_>) {
        if self.is_off() {
            return;
        }
        let hash = self.hash.of(request.scope, request.key);
        let mut set = self.set(hash);
        set.given_back += 1;
        for held in &mut set.places {
            held.take_if(|(known, _)| *known == hash);
        }
    }

    /// Forgets a denial of a key that was admitted under this quota, if it was under another: what the key has used is
    /// counted under this one from now on, and may be back under the other by the time when that is asked again.
    pub(super) fn admitted(&self, request: &Request<'_>) {
        if self.is_off() {
            return;
        }
        let hash = self.hash.of(request.scope, request.key);
        for held in &mut self.set(hash).places {
            held.take_if(|(known, denial)| *known == hash && !denial.is_under(request.quota));
        }
    }

    /// How many are remembered, those included that are over.
    pub(super) fn len(&self) -> usize {
        self.sets.iter().map(|set| lock(set).places.iter().flatten().count()).sum()
    }

    fn set(&self, hash: u64) -> MutexGuard<'_, Set> {
        lock(&self.sets[(hash % self.sets.len() as u64) as usize])
    }
}

fn lock(set: &Mutex<Set>) -> MutexGuard<'_, Set> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("room", &(PLACES * self.sets.len())).finish_non_exhaustive()
    }
}
