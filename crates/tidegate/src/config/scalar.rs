//! What a plain scalar of YAML is: the core schema of YAML 1.2, with numbers kept as they were written.

use super::tree::Value;

pub(super) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool { text: text.to_owned(), value: true },
        "false" | "False" | "FALSE" => Value::Bool { text: text.to_owned(), value: false },
        _ if is_number(text) => Value::Number { text: text.to_owned(), whole: whole(text) },
        _ => Value::Text(text.to_owned()),
    }
}

fn whole(text: &str) -> Option<u64> {
    match text.split_at_checked(2) {
        Some(("0x", digits)) => u64::from_str_radix(digits, 16).ok(),
        Some(("0o", digits)) => u64::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}

fn is_number(text: &str) -> bool {
    let all = |digits: &str, of: fn(&u8) -> bool| !digits.is_empty() && digits.as_bytes().iter().all(of);
    match text.split_at_checked(2) {
        Some(("0x", digits)) => return all(digits, u8::is_ascii_hexdigit),
        Some(("0o", digits)) => return all(digits, |digit| (b'0'..=b'7').contains(digit)),
        _ => {}
    }
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(text, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['-', '+']).unwrap_or(exponent)),
        None => (text, "0"),
    };
    let digits = mantissa.replacen('.', "", 1);
    all(&digits, u8::is_ascii_digit) && all(exponent, u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_the_core_schema_calls_numbers() {
        for (text, expected) in
            [("5", Some(5)), ("+5", Some(5)), ("0x1F", Some(31)), ("0o17", Some(15)), ("010", Some(10))]
        {
            assert!(matches!(plain(text), Value::Number { whole, .. } if whole == expected), "{text}");
        }
        for text in ["1.5", "-1", "1e3", ".5", "5.", "-.inf", ".nan", "18446744073709551616"] {
            assert!(matches!(plain(text), Value::Number { whole: None, .. }), "{text}");
        }
        for text in ["1m", "0x", "1.2.3", "e5", ".", "+", "1_000", "198.51.100.7", "yes", "é"] {
            assert!(matches!(plain(text), Value::Text(_)), "{text}");
        }
    }
}
