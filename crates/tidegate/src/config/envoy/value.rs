//! Values as the parser of envoyproxy/ratelimit takes them, which follows YAML 1.1 and the type that is expected.

use crate::config::reader::{Field, Fields};
use crate::config::tree::Value;

/// A field with something in it: `name:` alone is as good as nothing.
pub(super) fn filled<'a>(fields: &mut Fields<'a>, name: &'static str) -> Option<Field<'a>> {
    fields.get(name).filter(|field| !matches!(field.node.value, Value::Null))
}

/// A text as it was written: where one is expected, `80` and `true` are texts too.
pub(super) fn text<'a>(field: &Field<'a>, expected: &str) -> Option<&'a str> {
    match &field.node.value {
        Value::Text(text) | Value::Number { text, .. } | Value::Bool { text, .. } | Value::Other(text) => Some(text),
        Value::Null => Some(""),
        Value::List(_) | Value::Table(_) => {
            field.refuse(expected);
            None
        }
    }
}

/// An optional text, which is empty when it is not there.
pub(super) fn optional_text<'a>(fields: &mut Fields<'a>, name: &'static str) -> &'a str {
    filled(fields, name).and_then(|field| text(&field, "a text")).unwrap_or_default()
}

/// An optional flag, which is false when it is not there.
pub(super) fn flag(fields: &mut Fields<'_>, name: &'static str) -> bool {
    filled(fields, name).is_some_and(|field| is_set(&field))
}

/// What a flag says.
pub(super) fn is_set(field: &Field<'_>) -> bool {
    match &field.node.value {
        Value::Text(word) if ["y", "yes", "on"].iter().any(|yes| word.eq_ignore_ascii_case(yes)) => true,
        Value::Text(word) if ["n", "no", "off"].iter().any(|no| word.eq_ignore_ascii_case(no)) => false,
        _ => field.bool().unwrap_or_default(),
    }
}

/// A whole number within bounds.
pub(super) fn count(field: &Field<'_>, least: u64, most: u64) -> Option<u64> {
    let number = match &field.node.value {
        Value::Number { text, .. } => whole(text),
        // What is no number in YAML 1.2. Other texts that look like one were quoted.
        Value::Text(text) if text.contains('_') || text.starts_with("0b") => whole(text),
        _ => None,
    };
    let number = number.filter(|number| (least..=most).contains(number));
    if number.is_none() {
        field.refuse(&format!("a whole number from {least} to {most}"));
    }
    number
}

/// `1_000`, `0x1f`, `0b101` and, with a leading 0, octal.
fn whole(text: &str) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_yaml_1_1() {
        let cases =
            [("0", 0), ("5", 5), ("+5", 5), ("1_000", 1_000), ("010", 8), ("0o17", 15), ("0x1F", 31), ("0b101", 5)];
        for (text, expected) in cases {
            assert_eq!(whole(text), Some(expected), "{text}");
        }
        for text in ["", "_", "-1", "++1", "1.5", "1e3", "0x", "0b2", "08", "18446744073709551616", "1m"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }
}
