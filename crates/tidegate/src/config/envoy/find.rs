//! Which limits a request meets.

use std::collections::HashMap;

use tidegate_core::{Key, Quota};

use super::rules::{DEEPEST, Rule};
use super::{Domains, Unit};

/// A descriptor of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// Keys and values, in order.
    pub entries: &'a [(&'a str, &'a str)],
    /// A limit of its own, which it brings along.
    pub limit: Option<Override>,
}

/// A limit that a descriptor brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override {
    /// How many requests in every unit.
    pub requests_per_unit: u32,
    /// The unit.
    pub unit: Unit,
}

/// What the rules say about a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<'a> {
    /// No rule matches, or the one that does was replaced: it is admitted, and counted nowhere.
    Nothing,
    /// It is admitted without a limit.
    Unlimited,
    /// It is to be asked for.
    Limited(Limited<'a>),
}

/// A limit to be asked, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limited<'a> {
    /// The limit's name in a limiter with [`Domains::limits`].
    pub limit: &'a str,
    /// Who is limited: the values of the entries, with the pattern in the place of a value that shares its counter. For
    /// an [`Override`], the keys and values of the entries, and the unit.
    pub key: Key<'a>,
    /// The quota that goes along with the question, for an [`Override`]: its own, or the smallest of those that a request
    /// brings along for the same entries and unit.
    pub quota: Option<Quota>,
    /// How many requests in every unit. With 0 nothing is to be asked; see [`Limited::always_over`].
    pub requests_per_unit: u32,
    /// The unit.
    pub unit: Unit,
    /// The name in the rule's `rate_limit`; empty when it has none.
    pub name: &'a str,
    /// The names of the rules that it replaces.
    pub replaces: &'a [Box<str>],
    /// The request is over the limit only when all of its rules in quota mode are, or a deny list says no.
    pub quota_mode: bool,
    /// It is counted, and never denied.
    pub shadow: bool,
}

impl Limited<'_> {
    /// Whether every request is over the limit: 0 in a unit, which is no quota and has no limit to ask.
    pub fn always_over(&self) -> bool {
        self.requests_per_unit == 0
    }
}

impl Domains {
    /// What the rules say about one descriptor. At each level the exact value goes before wildcards, those in the order of
    /// the file, and they before a key without a value. Nothing is allocated unless the key is of several values that are
    /// long together.
    ///
    /// ```
    /// use tidegate::config::envoy::{Domains, Found};
    ///
    /// let text = "
    /// domain: shop
    /// descriptors:
    ///   - key: path
    ///     value: /login*
    ///     rate_limit: { unit: minute, requests_per_unit: 5 }
    /// ";
    /// let domains = Domains::parse(text, "shop.yaml")?;
    /// let Found::Limited(limited) = domains.find("shop", &[("path", "/login/new")]) else { panic!() };
    /// assert_eq!(limited.limit, "shop.path_/login*");
    /// assert_eq!(domains.find("shop", &[("path", "/")]), Found::Nothing);
    /// # Ok::<(), tidegate::config::ConfigErrors>(())
    /// ```
    pub fn find<'a>(&'a self, domain: &str, entries: &'a [(&'a str, &'a str)]) -> Found<'a> {
        match self.rule(domain, entries) {
            Some((rule, key)) => Found::of_rule(rule, key),
            None => Found::Nothing,
        }
    }

    /// What is said about a descriptor that brings its own limit along: it is judged by that, in every domain there is.
    pub fn find_override<'a>(&'a self, domain: &str, entries: &'a [(&'a str, &'a str)], limit: Override) -> Found<'a> {
        let Some(domain) = self.domains.get(domain) else { return Found::Nothing };
        let Override { requests_per_unit, unit } = limit;
        Found::Limited(Limited {
            limit: &domain.overrides,
            // With the unit: a minute's count is not an hour's, and a request may bring both.
            key: Key::from_parts(entries.iter().flat_map(|(key, value)| [*key, *value]).chain([unit.as_str()])),
            // There is none of 0.
            quota: Quota::fixed_window(requests_per_unit.into(), unit.period()).ok(),
            requests_per_unit,
            unit,
            name: "",
            replaces: &[],
            quota_mode: false,
            shadow: false,
        })
    }

    /// What is said about each descriptor of a request, in their order. A rule that replaces others switches them off for
    /// this request.
    pub fn find_all<'a>(&'a self, domain: &str, descriptors: &[Descriptor<'a>]) -> Vec<Found<'a>> {
        let mut replaced: Vec<&str> = Vec::new();
        let found = descriptors.iter().map(|descriptor| {
            if let Some(limit) = descriptor.limit {
                return self.find_override(domain, descriptor.entries, limit);
            }
            let Some((rule, key)) = self.rule(domain, descriptor.entries) else { return Found::Nothing };
            replaced.extend(rule.replaces.iter().map(|name| &**name));
            Found::of_rule(rule, key)
        });
        let mut found: Vec<_> = found.collect();
        for found in &mut found {
            if matches!(found, Found::Limited(limited) if replaced.contains(&limited.name)) {
                *found = Found::Nothing;
            }
        }
        if descriptors.iter().filter(|descriptor| descriptor.limit.is_some()).count() > 1 {
            share_counters(&mut found);
        }
        found
    }

    fn rule<'a>(&'a self, domain: &str, entries: &'a [(&'a str, &'a str)]) -> Option<(&'a Rule, Key<'a>)> {
        let mut parts = [""; DEEPEST];
        let rule = self.domains.get(domain)?.rules.find(entries, &mut parts)?;
        let key = match &parts[..entries.len()] {
            [only] => Key::from(*only),
            several => Key::from_parts(several),
        };
        Some((rule, key))
    }
}

/// Limits that are brought along for the same entries and unit are one counter, and can be asked for together under one
/// quota only: the smallest, which is the one that binds.
fn share_counters(found: &mut [Found<'_>]) {
    let brought = found.iter_mut().filter_map(|found| match found {
        Found::Limited(limited) => limited.quota.as_mut().map(|quota| (&limited.key, quota)),
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

impl<'a> Found<'a> {
    fn of_rule(rule: &'a Rule, key: Key<'a>) -> Self {
        let Some(rate) = rule.rate else { return Found::Unlimited };
        Found::Limited(Limited {
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
