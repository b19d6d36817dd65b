//! Envoy's messages in the JSON form of proto3: names in either case, 64-bit numbers as strings or numbers.

use std::borrow::Cow;
use std::str::FromStr;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use tidegate::ceil_seconds;
use tidegate::config::envoy::{Override, Unit};

use super::{Code, DescriptorRequest, Hits, Verdict, check_descriptor_count};

/// A rate limit request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct JsonRequest<'a> {
    #[serde(borrow, default)]
    pub(crate) domain: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) descriptors: Vec<JsonDescriptor<'a>>,
    #[serde(default, alias = "hitsAddend", deserialize_with = "deserialize_integer")]
    pub(crate) hits_addend: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct JsonDescriptor<'a> {
    #[serde(borrow, default)]
    entries: Vec<JsonEntry<'a>>,
    limit: Option<JsonLimit>,
    #[serde(default, alias = "hitsAddend", deserialize_with = "deserialize_integer")]
    hits_addend: Option<u64>,
    #[serde(default, alias = "isNegativeHits")]
    is_negative_hits: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct JsonEntry<'a> {
    #[serde(borrow, default)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct JsonLimit {
    #[serde(default, alias = "requestsPerUnit", deserialize_with = "deserialize_integer")]
    requests_per_unit: Option<u32>,
    #[serde(deserialize_with = "deserialize_unit")]
    unit: Unit,
}

/// Checks and converts the descriptors of a request.
pub(crate) fn descriptors<'a>(
    domain: &str,
    descriptors: &'a [JsonDescriptor<'a>],
    hits: Option<u32>,
) -> Result<Vec<DescriptorRequest<'a>>, &'static str> {
    check_descriptor_count(domain, descriptors.len())?;
    let requests = descriptors.iter().map(|descriptor| DescriptorRequest {
        entries: descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value)).collect(),
        limit: descriptor
            .limit
            .as_ref()
            .map(|limit| Override { requests_per_unit: limit.requests_per_unit.unwrap_or_default(), unit: limit.unit }),
        hits: Hits::new(descriptor.hits_addend, descriptor.is_negative_hits, hits.unwrap_or_default()),
    });
    Ok(requests.collect())
}

/// Reads a whole number or its digits; null counts as absent.
pub(crate) fn deserialize_integer<'de, D: Deserializer<'de>, N: FromStr + TryFrom<u64>>(
    deserializer: D,
) -> Result<Option<N>, D::Error> {
    let number = match Option::<NumberOrText<'_>>::deserialize(deserializer)? {
        None => return Ok(None),
        Some(NumberOrText::Number(number)) => N::try_from(number).ok(),
        Some(NumberOrText::Text(digits)) => digits.parse().ok(),
    };
    let bits = 8 * size_of::<N>();
    number
        .map(Some)
        .ok_or_else(|| D::Error::custom(format_args!("expected a whole number of {bits} bits, or its digits")))
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a whole number, or its digits")]
enum NumberOrText<'a> {
    Number(u64),
    Text(#[serde(borrow)] Cow<'a, str>),
}

/// Reads a unit by its name or its number.
fn deserialize_unit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Unit, D::Error> {
    let found = match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Text(name) => Unit::ALL.into_iter().find(|unit| unit.as_str().eq_ignore_ascii_case(&name)),
        NumberOrText::Number(number) => {
            UNITS_BY_NUMBER.into_iter().zip(1..).find(|(_, known)| *known == number).map(|(unit, _)| unit)
        }
    };
    found.ok_or_else(|| D::Error::custom("unit: expected SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR"))
}

/// The units in the order of their numbers, from 1.
const UNITS_BY_NUMBER: [Unit; 7] =
    [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Month, Unit::Year, Unit::Week];

/// A rate limit response.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JsonResponse {
    overall_code: &'static str,
    statuses: Vec<JsonStatus>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonStatus {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<JsonCurrentLimit>,
    limit_remaining: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonCurrentLimit {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    requests_per_unit: u32,
    unit: String,
}

impl From<Verdict> for JsonResponse {
    fn from(verdict: Verdict) -> Self {
        let statuses = verdict.statuses.into_iter().map(|status| JsonStatus {
            duration_until_reset: status.until_reset().map(|reset| format!("{}s", ceil_seconds(reset))),
            code: code_name(status.code),
            current_limit: status.limit.map(|limit| JsonCurrentLimit {
                name: limit.name,
                requests_per_unit: limit.requests_per_unit,
                unit: limit.unit.as_str().to_ascii_uppercase(),
            }),
            limit_remaining: status.remaining,
        });
        JsonResponse { overall_code: code_name(verdict.code), statuses: statuses.collect() }
    }
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::OverLimit => "OVER_LIMIT",
    }
}
