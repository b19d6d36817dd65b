//! Matching descriptors against the rules of a domain.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use ahash::AHasher;
use tidegate_core::{Key, Quota};

use super::{Domains, Unit};
use crate::config::tree::MAX_DEPTH;

/// A descriptor of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// Keys and values, in order.
    pub entries: &'a [(&'a str, &'a str)],
    /// A limit that overrides the rules.
    pub limit: Option<Override>,
}

/// A limit that a request carries in a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override {
    /// Requests per unit.
    pub requests_per_unit: u32,
    /// The time unit.
    pub unit: Unit,
}

/// The result of matching a descriptor.
#[allow(clippy::large_enum_variant, reason = "boxing the usual variant would allocate for every descriptor")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleMatch<'a> {
    /// No rule matches, or its rule was replaced. Admitted and not counted.
    NoRule,
    /// Admitted without a limit.
    Unlimited,
    /// Must be checked against a limit.
    Limited(MatchedLimit<'a>),
}

/// A limit to check, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchedLimit<'a> {
    /// The name of the limit in a limiter with [`Domains::limits`].
    pub limit: &'a str,
    /// The values of the entries, with the pattern in place of a value that shares its counter. For an [`Override`],
    /// the keys and values of the entries, and the unit.
    pub key: Key<'a>,
    /// The quota of an [`Override`], to pass with the call. Of several overrides with the same entries and unit, the
    /// smallest.
    pub quota: Option<Quota>,
    /// Requests per unit. 0 has no limit to check; see [`MatchedLimit::always_over`].
    pub requests_per_unit: u32,
    /// The time unit.
    pub unit: Unit,
    /// The name in the rule's `rate_limit`, or an empty text.
    pub name: &'a str,
    /// The names of the rules that it replaces.
    pub replaces: &'a [Box<str>],
    /// The request is over the limit only if all of its rules in quota mode are, or a deny list denies it.
    pub quota_mode: bool,
    /// Counts, and never denies.
    pub shadow: bool,
}

impl MatchedLimit<'_> {
    /// Returns whether every request is over the limit: 0 requests per unit, which is not a quota.
    pub fn always_over(&self) -> bool {
        self.requests_per_unit == 0
    }
}

impl Domains {
    /// Matches one descriptor. At each level the exact value wins over wildcards, those in the order of the file, and they
    /// over a key without a value. Allocates only for a key of several values that are long together.
    ///
    /// ```
    /// use tidegate::config::envoy::{Domains, RuleMatch};
    ///
    /// let text = "
    /// domain: shop
    /// descriptors:
    ///   - key: path
    ///     value: /login*
    ///     rate_limit: { unit: minute, requests_per_unit: 5 }
    /// ";
    /// let domains = Domains::parse(text, "shop.yaml")?;
    /// let RuleMatch::Limited(limited) = domains.find("shop", &[("path", "/login/new")]) else { panic!() };
    /// assert_eq!(limited.limit, "shop.path_/login*");
    /// assert_eq!(domains.find("shop", &[("path", "/")]), RuleMatch::NoRule);
    /// # Ok::<(), tidegate::config::ConfigErrors>(())
    /// ```
    pub fn find<'a>(&'a self, domain: &str, entries: &'a [(&'a str, &'a str)]) -> RuleMatch<'a> {
        match self.rule(domain, entries) {
            Some((rule, key)) => RuleMatch::from_rule(rule, key),
            None => RuleMatch::NoRule,
        }
    }

    /// Matches a descriptor with an override, which decides in every domain.
    pub fn find_override<'a>(
        &'a self,
        domain: &str,
        entries: &'a [(&'a str, &'a str)],
        limit: Override,
    ) -> RuleMatch<'a> {
        let Some(domain) = self.domains.get(domain) else { return RuleMatch::NoRule };
        let Override { requests_per_unit, unit } = limit;
        RuleMatch::Limited(MatchedLimit {
            limit: &domain.overrides,
            // Includes the unit: a request may carry a limit per minute and one per hour.
            key: Key::from_parts(entries.iter().flat_map(|(key, value)| [*key, *value]).chain([unit.as_str()])),
            // 0 requests are not a quota.
            quota: Quota::fixed_window(requests_per_unit.into(), unit.period()).ok(),
            requests_per_unit,
            unit,
            name: "",
            replaces: &[],
            quota_mode: false,
            shadow: false,
        })
    }

    /// Matches all descriptors of a request, in order. A rule that replaces others disables them for this request.
    pub fn find_all<'a>(&'a self, domain: &str, descriptors: &[Descriptor<'a>]) -> Vec<RuleMatch<'a>> {
        let mut replaced: Vec<&str> = Vec::new();
        let found = descriptors.iter().map(|descriptor| {
            if let Some(limit) = descriptor.limit {
                return self.find_override(domain, descriptor.entries, limit);
            }
            let Some((rule, key)) = self.rule(domain, descriptor.entries) else { return RuleMatch::NoRule };
            replaced.extend(rule.replaces.iter().map(|name| &**name));
            RuleMatch::from_rule(rule, key)
        });
        let mut found: Vec<_> = found.collect();
        for found in &mut found {
            if matches!(found, RuleMatch::Limited(limited) if replaced.contains(&limited.name)) {
                *found = RuleMatch::NoRule;
            }
        }
        if descriptors.iter().filter(|descriptor| descriptor.limit.is_some()).count() > 1 {
            unify_quotas_of_shared_counters(&mut found);
        }
        found
    }

    fn rule<'a>(&'a self, domain: &str, entries: &'a [(&'a str, &'a str)]) -> Option<(&'a Rule, Key<'a>)> {
        let mut parts = [""; MAX_ENTRIES];
        let rule = self.domains.get(domain)?.rules.find(entries, &mut parts)?;
        let key = match &parts[..entries.len()] {
            [only] => Key::from(*only),
            several => Key::from_parts(several),
        };
        Some((rule, key))
    }
}

/// Gives overrides with the same entries and unit the smallest of their quotas. They share one counter, which can be
/// checked with one quota only, and the smallest one binds.
fn unify_quotas_of_shared_counters(found: &mut [RuleMatch<'_>]) {
    let brought = found.iter_mut().filter_map(|found| match found {
        RuleMatch::Limited(limited) => limited.quota.as_mut().map(|quota| (&limited.key, quota)),
        _ => None,
    });
    let mut counters: HashMap<&Key<'_>, Vec<&mut Quota>> = HashMap::new();
    for (key, quota) in brought {
        counters.entry(key).or_default().push(quota);
    }
    for mut quotas in counters.into_values() {
        if let Some(smallest) = quotas.iter().map(|quota| **quota).min_by_key(|quota| quota.parts().capacity) {
            quotas.iter_mut().for_each(|quota| **quota = smallest);
        }
    }
}

impl<'a> RuleMatch<'a> {
    fn from_rule(rule: &'a Rule, key: Key<'a>) -> Self {
        let Some(rate) = rule.rate else { return RuleMatch::Unlimited };
        RuleMatch::Limited(MatchedLimit {
            limit: &rule.limit,
            key,
            quota: None,
            requests_per_unit: rate.requests_per_unit,
            unit: rate.unit,
            name: &rule.name,
            replaces: &rule.replaces,
            quota_mode: rule.quota_mode,
            shadow: rule.shadow,
        })
    }
}

/// The deepest nesting in a file: each level is a list and a table in the tree.
pub(super) const MAX_ENTRIES: usize = MAX_DEPTH / 2;

/// A hasher with fixed keys. Only the operator adds entries, so no client can make them collide.
pub(super) type RuleHasher = BuildHasherDefault<AHasher>;

/// The effect of a matching descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    /// The name of the limit.
    pub(super) limit: Arc<str>,
    /// `None` if unlimited.
    pub(super) rate: Option<Rate>,
    /// The name by which others replace it, or empty.
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

/// The rules of one list of descriptors, by key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RuleLevel(HashMap<Box<str>, KeyRules, RuleHasher>);

/// The rules of one key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct KeyRules {
    /// The rule without a value.
    without_value: Option<DescriptorRule>,
    /// Rules with a value, in the order of the file.
    with_value: Vec<DescriptorRule>,
    /// Their indexes by value. Patterns are here, too: a request may send a value with stars.
    exact: HashMap<Box<str>, usize, RuleHasher>,
    wildcards: Vec<(WildcardPattern, usize)>,
}

/// A descriptor in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DescriptorRule {
    pub(super) rule: Option<Rule>,
    /// The pattern in place of all values that match it, if they share one counter.
    pub(super) shared: Option<Box<str>>,
    pub(super) nested: RuleLevel,
}

impl RuleLevel {
    /// Adds a descriptor that is not there yet. An empty value means none.
    pub(super) fn add(&mut self, key: &str, value: &str, descriptor: DescriptorRule) {
        let values = self.0.entry(key.into()).or_default();
        if value.is_empty() {
            values.without_value = Some(descriptor);
            return;
        }
        let index = values.with_value.len();
        values.with_value.push(descriptor);
        values.exact.insert(value.into(), index);
        values.wildcards.extend(WildcardPattern::new(value).map(|pattern| (pattern, index)));
    }

    /// Returns the rule of a descriptor. Writes the parts of its key to `parts`, one for each entry.
    pub(super) fn find<'a>(
        &'a self,
        entries: &[(&str, &'a str)],
        parts: &mut [&'a str; MAX_ENTRIES],
    ) -> Option<&'a Rule> {
        if entries.len() > MAX_ENTRIES {
            return None;
        }
        let (mut level, mut rule) = (self, None);
        for ((key, value), part) in entries.iter().zip(parts) {
            // The first match decides, even if no nested descriptor matches.
            let descriptor = level.0.get(*key)?.find(value)?;
            *part = descriptor.shared.as_deref().unwrap_or(*value);
            (level, rule) = (&descriptor.nested, descriptor.rule.as_ref());
        }
        rule
    }
}

impl KeyRules {
    fn find(&self, value: &str) -> Option<&DescriptorRule> {
        let wildcard = || self.wildcards.iter().find(|(pattern, _)| pattern.matches(value)).map(|(_, index)| index);
        match self.exact.get(value).or_else(wildcard) {
            Some(index) => self.with_value.get(*index),
            None => self.without_value.as_ref(),
        }
    }
}

/// A value in which each `*` matches any characters or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WildcardPattern {
    /// Before the first star.
    first: Box<str>,
    /// Between stars, in order and never empty.
    middle: Box<[Box<str>]>,
    /// After the last star.
    last: Box<str>,
}

impl WildcardPattern {
    /// Returns a pattern if the value has a star.
    pub(super) fn new(value: &str) -> Option<Self> {
        let (first, rest) = value.split_once('*')?;
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle = middle.split('*').filter(|part| !part.is_empty()).map(Box::from);
        Some(WildcardPattern { first: first.into(), middle: middle.collect(), last: last.into() })
    }

    /// Returns whether the whole value matches, in linear time: the first occurrence of a part is as good as a later
    /// one.
    pub(super) fn matches(&self, value: &str) -> bool {
        let Some(rest) = value.strip_prefix(&*self.first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.last) else { return false };
        self.middle.iter().all(|part| match rest.split_once(&**part) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use tidegate_testkit::Random;

    use super::*;

    /// Tries every way in which stars can match.
    fn oracle(pattern: &[u8], value: &[u8]) -> bool {
        match pattern.split_first() {
            None => value.is_empty(),
            Some((b'*', rest)) => (0..=value.len()).any(|taken| oracle(rest, &value[taken..])),
            Some((letter, rest)) => value.first() == Some(letter) && oracle(rest, &value[1..]),
        }
    }

    #[test]
    fn stars_match_any_characters_or_none() {
        for (pattern, value, expected) in [
            ("foo*", "foo", true),
            ("foo*", "foobar", true),
            ("foo*", "fo", false),
            ("*", "", true),
            ("**", "é", true),
            ("*bar", "foobar", true),
            ("*bar", "bars", false),
            // The first part's characters cannot match again.
            ("aba*aba", "aba", false),
            ("aba*aba", "ababa", false),
            ("aba*aba", "abaaba", true),
            ("a*b*b", "ab", false),
            ("a*b*b", "abb", true),
            ("/api/*/users/*", "/api/v1/users/7", true),
            ("/api/*/users/*", "/api/v1/user/7", false),
            ("é*ü", "éaü", true),
        ] {
            assert_eq!(WildcardPattern::new(pattern).unwrap().matches(value), expected, "{pattern} {value}");
        }
        assert_eq!(WildcardPattern::new("foo"), None);
    }

    #[test]
    fn matching_agrees_with_exhaustive_search() {
        let mut random = Random::new(11);
        let mut word = |letters: &[u8], most: u64| -> String {
            (0..random.between(0, most)).map(|_| random.pick(letters) as char).collect()
        };
        let (mut matched, mut stars) = (0, 0);
        for _ in 0..50_000 {
            let (pattern, value) = (word(b"ab**", 8), word(b"ab", 10));
            let Some(parsed) = WildcardPattern::new(&pattern) else { continue };
            let expected = oracle(pattern.as_bytes(), value.as_bytes());
            assert_eq!(parsed.matches(&value), expected, "{pattern} {value}");
            matched += usize::from(expected);
            stars += usize::from(expected && pattern.matches('*').count() > 2);
        }
        assert!(matched > 1_000 && stars > 1_000, "{matched} {stars}: enough of them match");
    }
}
