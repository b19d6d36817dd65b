//! Times such as `10s`.

use std::time::Duration;

/// What a time looks like, for errors.
pub(crate) const TIME: &str = "a whole number and a unit (us, ms, s, m, h or d), such as \"500ms\", \"10s\" or \"1m\"";

/// The time, when it is one that microseconds can count.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(end);
    let unit: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60 * 1_000_000,
        "h" => 3_600 * 1_000_000,
        "d" => 86_400 * 1_000_000,
        _ => return None,
    };
    Some(Duration::from_micros(digits.parse::<u64>().ok()?.checked_mul(unit)?))
}

/// A time as configs write it, such as `10s`; or what is accepted.
///
/// ```
/// assert_eq!(tidegate::config::parse_duration("1m"), Ok(tidegate::minutes(1)));
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    parse(text).ok_or_else(|| format!("found {text:?}, expected {TIME}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_whole_number_and_a_unit() {
        let cases = [("0s", 0), ("7us", 7), ("500ms", 500_000), ("10s", 10_000_000), ("1m", 60_000_000)];
        for (text, micros) in cases {
            assert_eq!(parse(text), Some(Duration::from_micros(micros)), "{text}");
        }
        assert_eq!(parse("2h"), Some(Duration::from_secs(7_200)));
        assert_eq!(parse("366d"), Some(Duration::from_secs(366 * 86_400)));
        for text in [
            "",
            "5",
            "s",
            "1.5s",
            "-1s",
            "+1s",
            "1 s",
            "1S",
            "1min",
            "1m30s",
            "١s",
            "18446744073709551616us",
            "300000000d",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
