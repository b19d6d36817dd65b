//! The rules of a domain, and which of them a descriptor meets.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use ahash::AHasher;

use super::Unit;
use super::pattern::Pattern;
use crate::config::tree::MAX_DEPTH;

/// Deeper than descriptors can be nested in a file: each level is a list and a table in the tree.
pub(super) const DEEPEST: usize = MAX_DEPTH / 2;

/// The same for everybody: only the operator puts anything into these maps, so nobody can fill them with what collides.
pub(super) type Hash = BuildHasherDefault<AHasher>;

/// What a descriptor in a file does with what it matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    /// Its name in a limiter.
    pub(super) limit: Arc<str>,
    /// None when it is unlimited.
    pub(super) rate: Option<Rate>,
    /// By which others replace it; empty when it has none.
    pub(super) name: Box<str>,
    pub(super) replaces: Box<[Box<str>]>,
    pub(super) quota_mode: bool,
    pub(super) shadow: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) requests_per_unit: u32,
    pub(super) unit: Unit,
}

/// The descriptors of one list, by key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Level(HashMap<Box<str>, Values, Hash>);

/// The descriptors of one key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Values {
    /// The one without a value.
    bare: Option<Descriptor>,
    /// Those with a value, in the order of the file.
    valued: Vec<Descriptor>,
    /// Their places, by value. Those with wildcards are here too: a value may have stars in it, and be meant exactly.
    exact: HashMap<Box<str>, usize, Hash>,
    wildcards: Vec<(Pattern, usize)>,
}

/// A descriptor in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Descriptor {
    pub(super) rule: Option<Rule>,
    /// The pattern that stands for every value that matches it, when they share one counter.
    pub(super) shared: Option<Box<str>>,
    pub(super) nested: Level,
}

impl Level {
    /// Adds a descriptor, whose value is empty when it has none. It must not be there yet.
    pub(super) fn add(&mut self, key: &str, value: &str, descriptor: Descriptor) {
        let values = self.0.entry(key.into()).or_default();
        if value.is_empty() {
            values.bare = Some(descriptor);
            return;
        }
        let place = values.valued.len();
        values.valued.push(descriptor);
        values.exact.insert(value.into(), place);
        values.wildcards.extend(Pattern::new(value).map(|pattern| (pattern, place)));
    }

    /// The rule of a descriptor with these entries. Into `parts` go what its key is made of, one for each entry.
    pub(super) fn find<'a>(&'a self, entries: &[(&str, &'a str)], parts: &mut [&'a str; DEEPEST]) -> Option<&'a Rule> {
        if entries.len() > DEEPEST {
            return None;
        }
        let (mut level, mut rule) = (self, None);
        for ((key, value), part) in entries.iter().zip(parts) {
            // The first that matches is the one, even where nothing below it does.
            let descriptor = level.0.get(*key)?.find(value)?;
            *part = descriptor.shared.as_deref().unwrap_or(*value);
            (level, rule) = (&descriptor.nested, descriptor.rule.as_ref());
        }
        rule
    }
}

impl Values {
    fn find(&self, value: &str) -> Option<&Descriptor> {
        let wildcard = || self.wildcards.iter().find(|(pattern, _)| pattern.matches(value)).map(|(_, place)| place);
        match self.exact.get(value).or_else(wildcard) {
            Some(place) => self.valued.get(*place),
            None => self.bare.as_ref(),
        }
    }
}
