//! Numbers as headers have them.

use std::io::Write;

use http::HeaderValue;

/// Its digits. The conversion that comes with `HeaderValue` allocates twice.
pub(super) fn number(number: u64) -> HeaderValue {
    let mut digits = [0; 20];
    let mut rest = &mut digits[..];
    write!(rest, "{number}").expect("no number is longer");
    let unused = rest.len();
    HeaderValue::from_bytes(&digits[..digits.len() - unused]).expect("digits are printable")
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
