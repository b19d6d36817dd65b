//! Values with wildcards.

/// A value in which every `*` stands for any characters, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// What comes before the first star.
    first: Box<str>,
    /// What comes between two stars, in order and never empty.
    middle: Box<[Box<str>]>,
    /// What comes after the last star.
    last: Box<str>,
}

impl Pattern {
    /// The pattern, when there is a star in the value.
    pub(super) fn new(value: &str) -> Option<Self> {
        let (first, rest) = value.split_once('*')?;
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle = middle.split('*').filter(|part| !part.is_empty()).map(Box::from);
        Some(Pattern { first: first.into(), middle: middle.collect(), last: last.into() })
    }

    /// Whether the whole value is one of those that are meant. No value takes longer than in proportion to its length:
    /// where a part is found first is as good as anywhere later.
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

    /// Tries every way in which the stars could be filled.
    fn oracle(pattern: &[u8], value: &[u8]) -> bool {
        match pattern.split_first() {
            None => value.is_empty(),
            Some((b'*', rest)) => (0..=value.len()).any(|taken| oracle(rest, &value[taken..])),
            Some((letter, rest)) => value.first() == Some(letter) && oracle(rest, &value[1..]),
        }
    }

    #[test]
    fn stars_stand_for_any_characters_or_none() {
        for (pattern, value, expected) in [
            ("foo*", "foo", true),
            ("foo*", "foobar", true),
            ("foo*", "fo", false),
            ("*", "", true),
            ("**", "é", true),
            ("*bar", "foobar", true),
            ("*bar", "bars", false),
            // What the first part has taken is not there for the last.
            ("aba*aba", "aba", false),
            ("aba*aba", "ababa", false),
            ("aba*aba", "abaaba", true),
            ("a*b*b", "ab", false),
            ("a*b*b", "abb", true),
            ("/api/*/users/*", "/api/v1/users/7", true),
            ("/api/*/users/*", "/api/v1/user/7", false),
            ("é*ü", "éaü", true),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().matches(value), expected, "{pattern} {value}");
        }
        assert_eq!(Pattern::new("foo"), None);
    }

    #[test]
    fn they_agree_with_trying_everything() {
        let mut random = Random::new(11);
        let mut word = |letters: &[u8], most: u64| -> String {
            (0..random.between(0, most)).map(|_| random.pick(letters) as char).collect()
        };
        let (mut matched, mut stars) = (0, 0);
        for _ in 0..50_000 {
            let (pattern, value) = (word(b"ab**", 8), word(b"ab", 10));
            let Some(parsed) = Pattern::new(&pattern) else { continue };
            let expected = oracle(pattern.as_bytes(), value.as_bytes());
            assert_eq!(parsed.matches(&value), expected, "{pattern} {value}");
            matched += usize::from(expected);
            stars += usize::from(expected && pattern.matches('*').count() > 2);
        }
        assert!(matched > 1_000 && stars > 1_000, "{matched} {stars}: enough of them match");
    }
}
