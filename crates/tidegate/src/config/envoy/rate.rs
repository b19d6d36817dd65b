//! `rate_limit`.

use tidegate_core::{Algorithm, MAX_COUNT, MAX_PERIOD, Quota};

use super::Unit;
use super::rules::Rate;
use super::value::{count, filled, flag, optional_text, text};
use crate::config::reader::{Field, Fields};

/// What a `rate_limit` says.
pub(super) struct RateLimit {
    /// None when it is unlimited.
    pub(super) rate: Option<Rate>,
    /// None when nothing can be counted: it is unlimited, or its rate is 0.
    pub(super) quota: Option<Quota>,
    pub(super) name: Box<str>,
    pub(super) replaces: Box<[Box<str>]>,
}

impl RateLimit {
    pub(super) fn read(field: Field<'_>) -> Option<Self> {
        let mut fields = field.fields()?;
        let (rate, quota) = if flag(&mut fields, "unlimited") {
            refuse_beside_unlimited(&mut fields);
            (None, None)
        } else {
            // What stands in for what was refused is never used.
            rate(&mut fields).unwrap_or((None, None))
        };
        let name = optional_text(&mut fields, "name");
        let replaces = filled(&mut fields, "replaces").map(|field| replaces(&field, name)).unwrap_or_default();
        fields.finish();
        Some(RateLimit { rate, quota, name: name.into(), replaces })
    }
}

fn refuse_beside_unlimited(fields: &mut Fields<'_>) {
    // A number of requests is accepted and means nothing, as ever.
    filled(fields, "requests_per_unit").map(|field| count(&field, 0, MAX_COUNT));
    for name in ["unit", "unit_multiplier", "algorithm"] {
        let field = filled(fields, name).filter(|field| !field.is_text(""));
        if let Some(field) = field {
            field.refuse(&format!("no {name} beside `unlimited: true`"));
        }
    }
}

fn rate(fields: &mut Fields<'_>) -> Option<(Option<Rate>, Option<Quota>)> {
    let unit = fields.need("unit", &units()).and_then(unit);
    let requests = fields.need("requests_per_unit", &format!("a whole number from 0 to {MAX_COUNT}"));
    let requests = requests.and_then(|field| count(&field, 0, MAX_COUNT));
    let longest = MAX_PERIOD.as_secs() / unit.unwrap_or(Unit::Second).period().as_secs();
    let multiplier = match filled(fields, "unit_multiplier") {
        Some(field) => count(&field, 1, longest),
        None => Some(1),
    };
    let algorithm = match filled(fields, "algorithm") {
        // Envoy asks for units and releases nothing.
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

fn units() -> String {
    format!("one of {}", Unit::ALL.map(|unit| format!("{:?}", unit.as_str())).join(", "))
}

fn unit(field: Field<'_>) -> Option<Unit> {
    let word = text(&field, &units())?;
    let unit = Unit::ALL.into_iter().find(|unit| unit.as_str().eq_ignore_ascii_case(word));
    if unit.is_none() {
        field.refuse(&units());
    }
    unit
}

/// The names of the rules that are replaced by the rule `own`.
fn replaces(field: &Field<'_>, own: &str) -> Box<[Box<str>]> {
    const NAME: &str = "the name of another rule";
    let Some(entries) = field.list("a list of names, such as [{name: other}]") else { return Box::default() };
    let names = entries.filter_map(|entry| {
        let mut fields = entry.fields()?;
        let field = fields.need("name", NAME);
        fields.finish();
        let field = field?;
        let name = text(&field, NAME)?;
        if name.is_empty() {
            field.refuse(NAME);
        } else if name == own {
            field.refuse("the name of another rule, not the rule's own");
        }
        Some(name.into())
    });
    names.collect()
}
