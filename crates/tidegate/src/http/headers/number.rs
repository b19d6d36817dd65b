//! Numbers as headers have them.

use http::HeaderValue;

/// Its digits. Numbers up to that of the seconds of an hour, which is most of those in headers, are written down already,
/// so that nothing is allocated for them.
pub(super) fn number(number: u64) -> HeaderValue {
    match usize::try_from(number) {
        Ok(small) if small < WRITTEN => HeaderValue::from_static(written(small)),
        // The conversion that comes with `HeaderValue` allocates twice.
        _ => HeaderValue::from_str(itoa::Buffer::new().format(number)).expect("digits are printable"),
    }
}

/// How many numbers are written down, from 0 on.
const WRITTEN: usize = 3_601;
/// What each of them takes.
const WIDTH: usize = 4;

/// The numbers one after another, each with zeros in front of it.
static DIGITS: &str = match str::from_utf8(&BYTES) {
    Ok(digits) => digits,
    Err(_) => panic!("digits are text"),
};

static BYTES: [u8; WIDTH * WRITTEN] = {
    let mut bytes = [b'0'; WIDTH * WRITTEN];
    let mut number = 0;
    while number < WRITTEN {
        let (mut rest, mut place) = (number, WIDTH * (number + 1));
        while rest > 0 {
            place -= 1;
            bytes[place] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        number += 1;
    }
    bytes
};

fn written(number: usize) -> &'static str {
    let zeros = usize::from(number < 10) + usize::from(number < 100) + usize::from(number < 1_000);
    let start = WIDTH * number;
    &DIGITS[start + zeros..start + WIDTH]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_their_digits() {
        for value in (0..5_000).chain([9_999, 10_000, 4_294_967_295, u64::MAX]) {
            assert_eq!(number(value), value.to_string());
        }
    }
}
