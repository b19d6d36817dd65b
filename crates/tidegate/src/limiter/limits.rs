//! The named limits of a limiter, ready to be asked.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Algorithm, Key, Quota, Scope};

use super::terms::Terms;
use super::{BuildError, DenyList, Error, Limit, UnknownLimit};
use crate::store::memory::QuotaNumber;

/// One named limit and what is worked out from it once.
// What every decision looks at is close together: the end of the scope, the beginning of the limit, and what is between.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Named {
    pub(super) scope: Scope,
    plain: bool,
    /// Its quota's, in the limiter's store.
    pub(super) number: QuotaNumber,
    /// Its quota's.
    pub(super) window: Option<Duration>,
    pub(super) limit: Limit,
    /// Whom it never admits: its own list, as it is and made alike, and what everybody's is when it is made alike.
    deny: DenyList,
    /// Whom none of the limits admits.
    deny_all: Arc<DenyList>,
    /// The quotas of its shards; empty when there is one.
    pub(super) parts: Box<[Quota]>,
}

impl Named {
    /// Whether a key, as it is or made alike, or what else is known of who asks is on the deny list.
    pub(super) fn denies(&self, key: &Key<'_>, alike: &Key<'_>, terms: &Terms<'_>) -> bool {
        [&self.deny, &*self.deny_all].into_iter().any(|list| {
            list.contains(key)
                || (self.limit.normalize.is_some() && list.contains(alike))
                || terms.address.is_some_and(|address| list.contains_address(*address))
                || terms.whole_key.is_some_and(|key| {
                    list.contains(key) || self.limit.normalize.is_some_and(|alike| list.contains(&alike.apply(key)))
                })
        })
    }

    /// Whether there is anybody whom it denies by a list.
    pub(super) fn denies_anybody(&self) -> bool {
        !(self.deny.is_empty() && self.deny_all.is_empty())
    }

    fn new(shared: &Shared, name: &str, limit: Limit) -> Result<Self, BuildError> {
        limit.check_spread().map_err(|error| BuildError::Quota { name: name.to_owned(), error })?;
        let parts = match limit.shards {
            1 => Vec::new(),
            shards => limit.quota.split(shards).map_err(|error| BuildError::Quota { name: name.to_owned(), error })?,
        };
        let (mut deny, deny_all) = (limit.deny.clone(), Arc::clone(&shared.deny));
        if let Some(normalize) = limit.normalize {
            deny.add_alike(&limit.deny, normalize);
            deny.add_alike(&deny_all, normalize);
        }
        let counts_units = limit.quota.algorithm() != Algorithm::Concurrency;
        let keeps_keys = limit.shards == 1 && limit.normalize.is_none();
        let (scope, window) = (Scope::new(&shared.prefix, name), limit.quota.window());
        let (parts, number) = (parts.into(), QuotaNumber::default());
        let mut named = Named { scope, limit, deny, deny_all, parts, number, window, plain: false };
        named.plain = counts_units && keeps_keys && !named.limit.shadow && !named.denies_anybody();
        Ok(named)
    }

    pub(super) fn name(&self) -> &str {
        self.scope.limit()
    }

    /// Whether its keys go to the store as they are, and its decisions come back as they are. Leases take the longer way.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.plain
    }

    /// Whether its keys go to the store as they are.
    pub(super) fn keeps_keys(&self) -> bool {
        self.limit.normalize.is_none() && self.limit.shards == 1
    }

    /// Which part of one budget for everyone this key meets: always the same one.
    pub(super) fn part_of(&self, key: &Key<'_>) -> usize {
        (key.stable_hash(self.scope.stable_hash()) % self.parts.len() as u64) as usize
    }
}

/// What all limits of a limiter have in common.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared {
    pub(super) prefix: String,
    /// Whom none of them admits.
    pub(super) deny: Arc<DenyList>,
}

/// The limits by name. Read by every decision and written as a whole.
// What every decision looks at comes first.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub(super) struct Limits {
    /// A power of two of places, at most half of them taken: a name is in the first free one from its word's place on.
    places: Box<[Place]>,
    shared: Shared,
    /// How many of them are taken.
    taken: usize,
}

/// The word of a name and the limit of that name, if there is one.
type Place = Option<(u64, Arc<Named>)>;

impl Limits {
    pub(super) fn new(shared: Shared) -> Self {
        Limits { shared, places: Box::default(), taken: 0 }
    }

    pub(super) fn add(&mut self, name: String, limit: Limit) -> Result<(), BuildError> {
        if self.find(&name).is_some() {
            return Err(BuildError::DuplicateLimit(name));
        }
        self.put(Named::new(&self.shared, &name, limit)?);
        Ok(())
    }

    pub(super) fn deny(&mut self, name: &str, list: DenyList) -> Result<(), BuildError> {
        let Some(named) = self.find(name) else {
            return Err(BuildError::UnknownLimit { name: name.to_owned(), what: "deny keys of" });
        };
        let mut limit = named.limit.clone();
        limit.deny.merge(list);
        self.put(Named::new(&self.shared, name, limit)?);
        Ok(())
    }

    /// These limits with one of them replaced by what `change` makes of it.
    pub(super) fn with(&self, name: &str, change: impl FnOnce(&Limit) -> Result<Limit, Error>) -> Result<Self, Error> {
        let limit = change(&self.get(name)?.limit)?;
        let named = Named::new(&self.shared, name, limit).map_err(|error| match error {
            BuildError::Quota { error, .. } => Error::from(error),
            error => unreachable!("a limit that is there cannot be {error}"),
        })?;
        let mut limits = self.clone();
        limits.put(named);
        Ok(limits)
    }

    #[inline]
    pub(super) fn get(&self, name: &str) -> Result<&Arc<Named>, Error> {
        self.find(name).ok_or_else(|| self.unknown(name))
    }

    /// The same as [`Limits::find`], of a name that is asked for again and again.
    #[inline]
    pub(super) fn find_known(&self, name: &Name) -> Option<&Arc<Named>> {
        self.find_word(name.word, name)
    }

    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.all().map(|named| named.name().to_owned()).collect();
        names.sort();
        names
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Named>> {
        self.places.iter().flatten().map(|(_, named)| named)
    }

    #[inline]
    pub(super) fn find(&self, name: &str) -> Option<&Arc<Named>> {
        self.find_word(word(name), name)
    }

    #[inline(always)]
    fn find_word(&self, word: u64, name: &str) -> Option<&Arc<Named>> {
        let mut place = place_of(word);
        loop {
            place &= self.places.len().wrapping_sub(1);
            let (known, named) = self.places.get(place)?.as_ref()?;
            if *known == word && (name.len() <= WHOLE || named.name() == name) {
                return Some(named);
            }
            place += 1;
        }
    }

    /// Puts a limit in its place, or in the place of the one that had its name.
    fn put(&mut self, named: Named) {
        if self.find(named.name()).is_none() {
            self.taken += 1;
        }
        if self.taken * 2 > self.places.len() {
            let places = vec![None; (self.taken * 2).next_power_of_two()];
            let before = std::mem::replace(&mut self.places, places.into());
            before.into_iter().flatten().for_each(|(_, named)| self.put_in_place(named));
        }
        self.put_in_place(Arc::new(named));
    }

    /// There is room.
    fn put_in_place(&mut self, named: Arc<Named>) {
        let word = word(named.name());
        let mask = self.places.len() - 1;
        let mut place = place_of(word) & mask;
        while self.places[place].as_ref().is_some_and(|(_, known)| known.name() != named.name()) {
            place = (place + 1) & mask;
        }
        self.places[place] = Some((word, named));
    }

    #[cold]
    pub(super) fn unknown(&self, name: &str) -> Error {
        // Whoever asks for wrong names must not have thousands of right ones copied each time.
        let mut known: Vec<_> = self.all().take(NAMED).map(|named| named.name().to_owned()).collect();
        known.sort();
        let more = self.taken - known.len();
        Error::UnknownLimit(Box::new(UnknownLimit { name: name.to_owned(), known, more }))
    }
}

/// The name of a limit, with its word: worked out once by who asks for it again and again.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    text: Arc<str>,
    word: u64,
}

impl Name {
    pub(crate) fn new(text: Arc<str>) -> Self {
        Name { word: word(&text), text }
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// How many names are told to whoever asks for one that is not there.
const NAMED: usize = 50;

/// The longest name that is whole in its word.
const WHOLE: usize = 7;

/// A name as one word: all of it and its length when it is short, so that nothing else need be compared; else a plain,
/// quick hash. The names here are the operator's, so nobody can fill the places with colliding ones.
#[inline]
fn word(name: &str) -> u64 {
    let bytes = name.as_bytes();
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => {
            let ends = u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(32);
            // Thousands of names, made of one file's rules, may be alike at both ends.
            let middle = if bytes.len() > 16 { folded(&bytes[8..bytes.len() - 8]) } else { 0 };
            // The highest byte of a short name's word is its length.
            mixed(ends ^ middle ^ bytes.len() as u64) | 0xff << 56
        }
        _ => {
            bytes.iter().fold(bytes.len() as u64, |word, byte| word << 8 | u64::from(*byte))
                << (8 * (WHOLE - bytes.len()))
        }
    }
}

/// What is between the ends of a long name, as one word.
#[inline]
fn folded(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0, |folded, chunk| {
        let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        mixed(folded ^ word)
    })
}

/// Where the search for a word begins, once it is cut down to how many places there are.
#[inline]
fn place_of(word: u64) -> usize {
    mixed(word) as usize
}

#[inline]
fn mixed(bits: u64) -> u64 {
    let mixed = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use tidegate_core::seconds;

    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        let mut limits = Limits::default();
        assert!(limits.get("a").is_err());
        let quota = Quota::token_bucket(1, seconds(1)).unwrap();
        let names: Vec<_> = (0..300)
            .map(|n| match n % 5 {
                0 => format!("{n}"),
                // Alike at both ends.
                1 => format!("same beginning {n} same ending"),
                2 => "x".repeat(n),
                3 => format!("limit-{n}"),
                _ => format!("ü{n}"),
            })
            .collect();
        for name in &names {
            limits.add(name.clone(), Limit::new(quota)).unwrap();
        }
        for name in &names {
            let other = format!("{name}?");
            assert_eq!(limits.get(name).unwrap().name(), name);
            assert_eq!(limits.find_known(&Name::new(name.as_str().into())).unwrap().name(), name);
            assert!(limits.get(&other).is_err());
            assert!(limits.find_known(&Name::new(other.into())).is_none());
            assert_eq!(limits.add(name.clone(), Limit::new(quota)), Err(BuildError::DuplicateLimit(name.clone())));
        }
        assert_eq!(limits.names().len(), names.len());
    }

    #[test]
    fn names_that_are_alike_at_both_ends_have_words_of_their_own() {
        let names = (0..10_000).map(|n| format!("domain.tenant_{n:05}.path_/login"));
        let words: std::collections::HashSet<_> = names.map(|name| word(&name)).collect();
        assert_eq!(words.len(), 10_000);
    }
}
