//! Reading Envoy rate limit files into domains, with the leniency of envoyproxy/ratelimit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidegate_core::{Algorithm, MAX_COUNT, MAX_PERIOD, Quota, seconds};

use super::matching::{DescriptorRule, Rate, Rule, RuleLevel};
use super::{Domain, Domains, Unit};
use crate::config::error::ConfigErrors;
use crate::config::reader::{ErrorCollector, Field, Fields};
use crate::config::tree::{Entry, Node, Value};
use crate::config::{without_byte_order_mark, yaml};
use crate::limiter::Limit;

/// A reader of domains, file by file.
#[derive(Default)]
pub(super) struct DomainReader {
    pub(super) domains: Domains,
    /// The position of each domain.
    first_seen: HashMap<String, (Arc<str>, usize)>,
    names: HashSet<Arc<str>>,
}

impl DomainReader {
    /// Reads one file and returns its errors.
    pub(super) fn read_file(&mut self, text: &str, file: &Arc<str>) -> ConfigErrors {
        let mut errors = ConfigErrors::default();
        let Some(mut tree) = yaml::parse(without_byte_order_mark(text), file, &mut errors) else { return errors };
        merge(&mut tree);
        let collector = ErrorCollector::new(file, errors);
        if let Some(mut root) = Fields::root(&collector, &tree) {
            let name = root
                .required("domain", DOMAIN)
                .and_then(|field| self.read_domain_name(&field, file))
                .unwrap_or_default();
            let overrides = self.claim_name(format!("{name}.(override)"));
            let any = Quota::fixed_window(1, seconds(1)).expect("a quota");
            self.domains.limits.push((Arc::clone(&overrides), Limit::new(any)));
            self.domains.overrides.insert(Arc::clone(&overrides));
            let rules = self.read_level(non_null(&mut root, "descriptors"), name);
            root.reject_unknown();
            self.domains.domains.insert(name.into(), Domain { rules, overrides });
        }
        collector.into_errors()
    }

    fn read_domain_name<'a>(&mut self, field: &Field<'a>, file: &Arc<str>) -> Option<&'a str> {
        let name = text(field, DOMAIN)?;
        if name.is_empty() {
            field.reject(DOMAIN);
            return None;
        }
        match self.first_seen.get(name) {
            Some((first, line)) => field.error(format!(
                "the domain {name:?} is there twice, first in {first}:{line}: expected each domain once"
            )),
            None => drop(self.first_seen.insert(name.to_owned(), (Arc::clone(file), field.node.at.line))),
        }
        Some(name)
    }

    /// Reads a list of descriptors below the name `above`.
    fn read_level(&mut self, field: Option<Field<'_>>, above: &str) -> RuleLevel {
        let mut level = RuleLevel::default();
        let mut lines = HashMap::new();
        let list = field.and_then(|field| field.list("a list of descriptors, such as [{key: path}]"));
        for fields in list.into_iter().flatten().filter_map(Field::fields) {
            self.read_descriptor(fields, above, &mut level, &mut lines);
        }
        level
    }

    fn read_descriptor<'a>(
        &mut self,
        mut fields: Fields<'a>,
        above: &str,
        level: &mut RuleLevel,
        lines: &mut HashMap<(&'a str, &'a str), usize>,
    ) {
        let key = fields.required("key", KEY);
        let value = optional_text(&mut fields, "value");
        let key = key.and_then(|field| read_key(&field, value, lines)).unwrap_or_default();
        let name = match value {
            "" => format!("{above}.{key}"),
            value => format!("{above}.{key}_{value}"),
        };
        let limit = non_null(&mut fields, "rate_limit").and_then(RateLimitSpec::read);
        let (shadow, quota_mode) = (flag(&mut fields, "shadow_mode"), flag(&mut fields, "quota_mode"));
        let rule = limit.map(|limit| self.add_rule(limit, &name, shadow, quota_mode));
        // They configure Envoy's statistics.
        flag(&mut fields, "detailed_metric");
        flag(&mut fields, "value_to_metric");
        let shared = read_share_pattern(&mut fields, value);
        // Free-form and unused.
        fields.optional("metadata");
        let nested = self.read_level(non_null(&mut fields, "descriptors"), &name);
        fields.reject_unknown();
        level.add(key, value, DescriptorRule { rule, shared, nested });
    }

    fn add_rule(&mut self, read: RateLimitSpec, name: &str, shadow: bool, quota_mode: bool) -> Rule {
        let RateLimitSpec { rate, quota, name: own, replaces } = read;
        let limit = self.claim_name(name.to_owned());
        if let Some(quota) = quota {
            self.domains.limits.push((Arc::clone(&limit), Limit::new(quota).shadow(shadow)));
        } else if rate.is_some() {
            self.domains.always_over.push((Arc::clone(&limit), shadow));
        }
        Rule { limit, rate, name: own, replaces, quota_mode, shadow }
    }

    /// Returns a unique name for a limit. Names collide only by dots and underscores in keys and values.
    fn claim_name(&mut self, name: String) -> Arc<str> {
        let mut claimed: Arc<str> = name.as_str().into();
        let mut number = 2;
        while !self.names.insert(Arc::clone(&claimed)) {
            claimed = format!("{name} ({number})").into();
            number += 1;
        }
        claimed
    }
}

const DOMAIN: &str = "the name of the domain";
const KEY: &str = "a key of one character or more, without `*`: wildcards are for values";

/// Reads a key. Rejects invalid keys and duplicates of a key and value.
fn read_key<'a>(field: &Field<'a>, value: &'a str, lines: &mut HashMap<(&'a str, &'a str), usize>) -> Option<&'a str> {
    let key = text(field, KEY)?;
    if key.is_empty() || key.contains('*') {
        field.reject(KEY);
        return None;
    }
    let what = match value {
        "" => "without a value".to_owned(),
        value => format!("with the value {value:?}"),
    };
    match lines.get(&(key, value)) {
        Some(line) => field
            .error(format!("{key:?} {what} is there twice, first in line {line}: expected each key and value once")),
        None => drop(lines.insert((key, value), field.node.at.line)),
    }
    Some(key)
}

/// Reads the pattern whose values share one counter.
fn read_share_pattern(fields: &mut Fields<'_>, value: &str) -> Option<Box<str>> {
    let field = non_null(fields, "share_threshold").filter(flag_value)?;
    if !value.contains('*') {
        field.error("share_threshold is for values with a wildcard: expected a `*` in the value");
    }
    Some(value.into())
}

/// A `rate_limit`.
pub(super) struct RateLimitSpec {
    /// `None` if unlimited.
    pub(super) rate: Option<Rate>,
    /// `None` if unlimited or 0.
    pub(super) quota: Option<Quota>,
    pub(super) name: Box<str>,
    pub(super) replaces: Box<[Box<str>]>,
}

impl RateLimitSpec {
    pub(super) fn read(field: Field<'_>) -> Option<Self> {
        let mut fields = field.fields()?;
        let (rate, quota) = if flag(&mut fields, "unlimited") {
            reject_rate_beside_unlimited(&mut fields);
            (None, None)
        } else {
            // A stand-in for a rejected value is never used.
            read_rate(&mut fields).unwrap_or((None, None))
        };
        let name = optional_text(&mut fields, "name");
        let replaces = non_null(&mut fields, "replaces").map(|field| read_replaces(&field, name)).unwrap_or_default();
        fields.reject_unknown();
        Some(RateLimitSpec { rate, quota, name: name.into(), replaces })
    }
}

fn reject_rate_beside_unlimited(fields: &mut Fields<'_>) {
    // Accepted and ignored, as upstream does.
    non_null(fields, "requests_per_unit").map(|field| count(&field, 0, MAX_COUNT));
    for name in ["unit", "unit_multiplier", "algorithm"] {
        let field = non_null(fields, name).filter(|field| !field.is_text(""));
        if let Some(field) = field {
            field.reject(&format!("no {name} beside `unlimited: true`"));
        }
    }
}

fn read_rate(fields: &mut Fields<'_>) -> Option<(Option<Rate>, Option<Quota>)> {
    let unit = fields.required("unit", &expected_unit()).and_then(read_unit);
    let requests = fields.required("requests_per_unit", &format!("a whole number from 0 to {MAX_COUNT}"));
    let requests = requests.and_then(|field| count(&field, 0, MAX_COUNT));
    let max_multiplier = MAX_PERIOD.as_secs() / unit.unwrap_or(Unit::Second).period().as_secs();
    let multiplier = match non_null(fields, "unit_multiplier") {
        Some(field) => count(&field, 1, max_multiplier),
        None => Some(1),
    };
    let algorithm = match non_null(fields, "algorithm") {
        // Envoy requests units and releases nothing.
        Some(field) => field.one_of(&Algorithm::RATES.map(|algorithm| (algorithm.as_str(), algorithm))),
        None => Some(Algorithm::FixedWindow),
    };
    let (unit, requests) = (unit?, requests?);
    let period = unit.period() * multiplier? as u32;
    let quota = match requests {
        0 => None,
        _ => Some(Quota::new(algorithm?, requests, period).expect("both were looked at")),
    };
    Some((Some(Rate { requests_per_unit: requests as u32, unit }), quota))
}

fn expected_unit() -> String {
    format!("one of {}", Unit::ALL.map(|unit| format!("{:?}", unit.as_str())).join(", "))
}

fn read_unit(field: Field<'_>) -> Option<Unit> {
    let word = text(&field, &expected_unit())?;
    let unit = Unit::ALL.into_iter().find(|unit| unit.as_str().eq_ignore_ascii_case(word));
    if unit.is_none() {
        field.reject(&expected_unit());
    }
    unit
}

/// Reads the names of the rules that the rule `own` replaces.
fn read_replaces(field: &Field<'_>, own: &str) -> Box<[Box<str>]> {
    const NAME: &str = "the name of another rule";
    let Some(entries) = field.list("a list of names, such as [{name: other}]") else { return Box::default() };
    let names = entries.filter_map(|entry| {
        let mut fields = entry.fields()?;
        let field = fields.required("name", NAME);
        fields.reject_unknown();
        let field = field?;
        let name = text(&field, NAME)?;
        if name.is_empty() {
            field.reject(NAME);
        } else if name == own {
            field.reject("the name of another rule, not the rule's own");
        }
        Some(name.into())
    });
    names.collect()
}

/// Returns a field with a value: `name:` alone counts as absent.
pub(super) fn non_null<'a>(fields: &mut Fields<'a>, name: &'static str) -> Option<Field<'a>> {
    fields.optional(name).filter(|field| !matches!(field.node.value, Value::Null))
}

/// Returns a text as written: where a text is expected, `80` and `true` are texts.
pub(super) fn text<'a>(field: &Field<'a>, expected: &str) -> Option<&'a str> {
    match &field.node.value {
        Value::Text(text) | Value::Number { text, .. } | Value::Bool { text, .. } | Value::Other(text) => Some(text),
        Value::Null => Some(""),
        Value::List(_) | Value::Table(_) => {
            field.reject(expected);
            None
        }
    }
}

/// Returns an optional text, or an empty one.
pub(super) fn optional_text<'a>(fields: &mut Fields<'a>, name: &'static str) -> &'a str {
    non_null(fields, name).and_then(|field| text(&field, "a text")).unwrap_or_default()
}

/// Returns an optional flag, or false.
pub(super) fn flag(fields: &mut Fields<'_>, name: &'static str) -> bool {
    non_null(fields, name).is_some_and(|field| flag_value(&field))
}

/// Returns the value of a flag.
pub(super) fn flag_value(field: &Field<'_>) -> bool {
    match &field.node.value {
        Value::Text(word) if ["y", "yes", "on"].iter().any(|yes| word.eq_ignore_ascii_case(yes)) => true,
        Value::Text(word) if ["n", "no", "off"].iter().any(|no| word.eq_ignore_ascii_case(no)) => false,
        _ => field.bool().unwrap_or_default(),
    }
}

/// Returns a whole number within bounds, in YAML 1.1 notation.
pub(super) fn count(field: &Field<'_>, min: u64, max: u64) -> Option<u64> {
    let number = match &field.node.value {
        Value::Number { text, .. } => yaml_1_1_whole_number(text),
        // Not a number in YAML 1.2. Other texts that look like numbers were quoted.
        Value::Text(text) if text.contains('_') || text.starts_with("0b") => yaml_1_1_whole_number(text),
        _ => None,
    };
    let number = number.filter(|number| (min..=max).contains(number));
    if number.is_none() {
        field.reject(&format!("a whole number from {min} to {max}"));
    }
    number
}

/// Parses `1_000`, `0x1f`, `0b101` and, with a leading 0, octal.
fn yaml_1_1_whole_number(text: &str) -> Option<u64> {
    let plain = text.strip_prefix('+').unwrap_or(text).replace('_', "");
    let (digits, radix) = match plain.as_bytes() {
        [b'0', b'x', ..] => (&plain[2..], 16),
        [b'0', b'o', ..] => (&plain[2..], 8),
        [b'0', b'b', ..] => (&plain[2..], 2),
        [b'0', _, ..] => (&plain[1..], 8),
        _ => (&*plain, 10),
    };
    let all_digits = digits.chars().all(|digit| digit.is_digit(radix));
    if all_digits { u64::from_str_radix(digits, radix).ok() } else { None }
}

/// Resolves merge keys: `<<: *other` adds the fields of another table that are not set. The tree does not grow, because
/// merged fields move.
pub(super) fn merge(node: &mut Node) {
    match &mut node.value {
        Value::List(nodes) => nodes.iter_mut().for_each(merge),
        Value::Table(entries) => {
            entries.iter_mut().for_each(|entry| merge(&mut entry.node));
            let merge_key = entries.iter().position(|entry| entry.key == "<<" && is_mergeable(&entry.node));
            if let Some(index) = merge_key {
                let merged = tables(entries.remove(index).node);
                let mut names: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
                // Of several, the first wins.
                entries.extend(merged.into_iter().filter(|entry| names.insert(entry.key.clone())));
            }
        }
        _ => {}
    }
}

fn is_mergeable(node: &Node) -> bool {
    match &node.value {
        Value::Table(_) => true,
        Value::List(nodes) => nodes.iter().all(|node| matches!(node.value, Value::Table(_))),
        _ => false,
    }
}

/// Returns the fields of a table, or of all tables in a list.
fn tables(node: Node) -> Vec<Entry> {
    match node.value {
        Value::Table(entries) => entries,
        Value::List(nodes) => nodes.into_iter().flat_map(tables).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_yaml_1_1() {
        let cases =
            [("0", 0), ("5", 5), ("+5", 5), ("1_000", 1_000), ("010", 8), ("0o17", 15), ("0x1F", 31), ("0b101", 5)];
        for (text, expected) in cases {
            assert_eq!(yaml_1_1_whole_number(text), Some(expected), "{text}");
        }
        for text in ["", "_", "-1", "++1", "1.5", "1e3", "0x", "0b2", "08", "18446744073709551616", "1m"] {
            assert_eq!(yaml_1_1_whole_number(text), None, "{text}");
        }
    }
}
