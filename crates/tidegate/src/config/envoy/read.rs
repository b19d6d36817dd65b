//! From files to domains.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidegate_core::{Quota, seconds};

use super::rate::RateLimit;
use super::rules::{Descriptor, Level, Rule};
use super::value::{filled, flag, is_set, optional_text, text};
use super::{Domain, Domains, merge};
use crate::config::error::ConfigError;
use crate::config::reader::{Field, Fields, Reader};
use crate::config::{file, yaml};
use crate::limiter::Limit;

/// Domains while they are read, file by file.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) domains: Domains,
    /// Where each domain was first.
    first: HashMap<String, (Arc<str>, usize)>,
    names: HashSet<Arc<str>>,
}

impl Reading {
    /// Reads one file, and returns what is wrong with it.
    pub(super) fn file(&mut self, text: &str, file: &Arc<str>) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let Some(mut tree) = yaml::parse(file::without_mark(text), file, &mut errors) else { return errors };
        merge::merge(&mut tree);
        let reader = Reader::new(file, errors);
        if let Some(mut root) = Fields::root(&reader, &tree) {
            let name = root.need("domain", DOMAIN).and_then(|field| self.domain_name(&field, file)).unwrap_or_default();
            let overrides = self.claim(format!("{name}.(override)"));
            let any = Quota::fixed_window(1, seconds(1)).expect("a quota");
            self.domains.limits.push((Arc::clone(&overrides), Limit::new(any)));
            self.domains.overrides.insert(Arc::clone(&overrides));
            let rules = self.level(filled(&mut root, "descriptors"), name);
            root.finish();
            self.domains.domains.insert(name.into(), Domain { rules, overrides });
        }
        reader.into_errors()
    }

    fn domain_name<'a>(&mut self, field: &Field<'a>, file: &Arc<str>) -> Option<&'a str> {
        let name = text(field, DOMAIN)?;
        if name.is_empty() {
            field.refuse(DOMAIN);
            return None;
        }
        match self.first.get(name) {
            Some((first, line)) => field.object(format!(
                "the domain {name:?} is there twice, first in {first}:{line}: expected each domain once"
            )),
            None => drop(self.first.insert(name.to_owned(), (Arc::clone(file), field.node.at.line))),
        }
        Some(name)
    }

    /// The descriptors of one list, below what is called `above`.
    fn level(&mut self, field: Option<Field<'_>>, above: &str) -> Level {
        let mut level = Level::default();
        let mut lines = HashMap::new();
        let list = field.and_then(|field| field.list("a list of descriptors, such as [{key: path}]"));
        for fields in list.into_iter().flatten().filter_map(Field::fields) {
            self.descriptor(fields, above, &mut level, &mut lines);
        }
        level
    }

    fn descriptor<'a>(
        &mut self,
        mut fields: Fields<'a>,
        above: &str,
        level: &mut Level,
        lines: &mut HashMap<(&'a str, &'a str), usize>,
    ) {
        let key = fields.need("key", KEY);
        let value = optional_text(&mut fields, "value");
        let key = key.and_then(|field| read_key(&field, value, lines)).unwrap_or_default();
        let name = match value {
            "" => format!("{above}.{key}"),
            value => format!("{above}.{key}_{value}"),
        };
        let limit = filled(&mut fields, "rate_limit").and_then(RateLimit::read);
        let (shadow, quota_mode) = (flag(&mut fields, "shadow_mode"), flag(&mut fields, "quota_mode"));
        let rule = limit.map(|limit| self.rule(limit, &name, shadow, quota_mode));
        // These say what upstream's statistics are called.
        flag(&mut fields, "detailed_metric");
        flag(&mut fields, "value_to_metric");
        let shared = shared(&mut fields, value);
        // Whatever it is, nothing here reads it.
        fields.get("metadata");
        let nested = self.level(filled(&mut fields, "descriptors"), &name);
        fields.finish();
        level.add(key, value, Descriptor { rule, shared, nested });
    }

    fn rule(&mut self, read: RateLimit, name: &str, shadow: bool, quota_mode: bool) -> Rule {
        let RateLimit { rate, quota, name: own, replaces } = read;
        let limit = self.claim(name.to_owned());
        if let Some(quota) = quota {
            self.domains.limits.push((Arc::clone(&limit), Limit::new(quota).shadow(shadow)));
        } else if rate.is_some() {
            self.domains.always_over.push((Arc::clone(&limit), shadow));
        }
        Rule { limit, rate, name: own, replaces, quota_mode, shadow }
    }

    /// A name for a limit that no other has. They can be the same only by dots and underscores within keys and values.
    fn claim(&mut self, name: String) -> Arc<str> {
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

/// The key; what cannot be one is refused, and a key and value that were there before.
fn read_key<'a>(field: &Field<'a>, value: &'a str, lines: &mut HashMap<(&'a str, &'a str), usize>) -> Option<&'a str> {
    let key = text(field, KEY)?;
    if key.is_empty() || key.contains('*') {
        field.refuse(KEY);
        return None;
    }
    let what = match value {
        "" => "without a value".to_owned(),
        value => format!("with the value {value:?}"),
    };
    match lines.get(&(key, value)) {
        Some(line) => field
            .object(format!("{key:?} {what} is there twice, first in line {line}: expected each key and value once")),
        None => drop(lines.insert((key, value), field.node.at.line)),
    }
    Some(key)
}

/// The pattern whose values share one counter.
fn shared(fields: &mut Fields<'_>, value: &str) -> Option<Box<str>> {
    let field = filled(fields, "share_threshold").filter(is_set)?;
    if !value.contains('*') {
        field.object("share_threshold is for values with a wildcard: expected a `*` in the value");
    }
    Some(value.into())
}
