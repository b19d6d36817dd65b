//! Numbers as headers have them.

use http::HeaderValue;

/// Its digits. The conversion that comes with `HeaderValue` allocates twice.
pub(super) fn number(number: u64) -> HeaderValue {
    HeaderValue::from_str(itoa::Buffer::new().format(number)).expect("digits are printable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_their_digits() {
        for value in [0, 9, 10, 4_294_967_295, u64::MAX] {
            assert_eq!(number(value), value.to_string());
        }
    }
}
