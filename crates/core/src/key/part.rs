//! The types that keys are made of: text, numbers, addresses, bytes and tuples of them.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::text::KeyText;
use super::{Encoding, INLINE_LEN, Key};

/// A value that can be one part of a key.
pub trait KeyPart {
    /// Hands the part's text to `write`.
    fn with_text(&self, write: &mut dyn FnMut(&str));
}

impl<P: KeyPart + ?Sized> KeyPart for &P {
    fn with_text(&self, write: &mut dyn FnMut(&str)) {
        P::with_text(self, write);
    }
}

impl KeyPart for str {
    fn with_text(&self, write: &mut dyn FnMut(&str)) {
        write(self);
    }
}

macro_rules! impl_text_parts {
    ($($part:ty),*) => { $(
        impl KeyPart for $part {
            fn with_text(&self, write: &mut dyn FnMut(&str)) {
                write(self);
            }
        }
    )* };
}

impl_text_parts! { String, Arc<str>, Box<str>, Cow<'_, str> }

/// Bytes that are not text, such as a UUID or a hash, as lowercase hexadecimal digits.
impl<const N: usize> KeyPart for [u8; N] {
    fn with_text(&self, write: &mut dyn FnMut(&str)) {
        write(&to_hex(self));
    }
}

fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).expect("four bits");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Returns a number's decimal digits inline. The formatting machinery would cost more than the decision. The digits are
/// assembled in a register, because bytes that were written one by one cannot be read together for a while.
#[inline]
pub(super) fn decimal_digits(number: u64, negative: bool) -> (u8, [u8; INLINE_LEN]) {
    /// A number of at most 15 digits, with its sign, fits in the first 16 bytes. The last eight digits of a longer
    /// number follow.
    const SHORT: u64 = 10_u64.pow(15);
    const EIGHT: u64 = 10_u64.pow(8);
    let (mut head, tail) = if number < SHORT { (number, None) } else { (number / EIGHT, Some(number % EIGHT)) };
    let (mut text, mut len) = (0_u128, 0);
    let mut prepend = |byte: u8| {
        text = text << 8 | u128::from(byte);
        len += 1;
    };
    loop {
        prepend(b'0' + (head % 10) as u8);
        head /= 10;
        if head == 0 {
            break;
        }
    }
    if negative {
        prepend(b'-');
    }
    let mut bytes = [0; INLINE_LEN];
    bytes[..16].copy_from_slice(&text.to_le_bytes());
    if let Some(mut tail) = tail {
        for byte in bytes[len..len + 8].iter_mut().rev() {
            *byte = b'0' + (tail % 10) as u8;
            tail /= 10;
        }
        len += 8;
    }
    (len as u8, bytes)
}

fn with_digits(number: u64, negative: bool, write: &mut dyn FnMut(&str)) {
    let (len, bytes) = decimal_digits(number, negative);
    write(str::from_utf8(&bytes[..usize::from(len)]).expect("digits"));
}

macro_rules! impl_number_parts {
    ($($unsigned:ty, $signed:ty;)*) => { $(
        impl KeyPart for $unsigned {
            fn with_text(&self, write: &mut dyn FnMut(&str)) {
                with_digits(u64::from(*self), false, write);
            }
        }
        impl KeyPart for $signed {
            fn with_text(&self, write: &mut dyn FnMut(&str)) {
                with_digits(u64::from(self.unsigned_abs()), *self < 0, write);
            }
        }
    )* };
}

impl_number_parts! { u8, i8; u16, i16; u32, i32; u64, i64; }

/// Returns the text of an IPv4 address inline, without the formatting machinery: most clients have such an address. It
/// is assembled in a register, because bytes that were written one by one cannot be copied together for a while.
#[inline]
pub(super) fn dotted_quad(address: Ipv4Addr) -> (u8, [u8; INLINE_LEN]) {
    // Two octets with their dots are eight bytes at most.
    let two = |first: u8, second: u8| {
        let ((first, len), (second, more)) = (OCTETS[usize::from(first)], OCTETS[usize::from(second)]);
        (u64::from(first) | u64::from(second) << (8 * len), len + more)
    };
    let [a, b, c, d] = address.octets();
    let ((first, len), (second, more)) = (two(a, b), two(c, d));
    let text = u128::from(first) | u128::from(second) << (8 * len);
    let len = len + more - 1;
    // Drops the last dot, which is not part of the text.
    let text = text ^ u128::from(b'.') << (8 * len);
    let mut bytes = [0; INLINE_LEN];
    bytes[..16].copy_from_slice(&text.to_le_bytes());
    (len, bytes)
}

/// Every octet's digits and a dot, the first digit in the lowest byte, and their number of bytes.
static OCTETS: [(u32, u8); 256] = {
    let mut octets = [(0, 0); 256];
    let mut octet = 0;
    while octet < 256 {
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let (mut text, mut len) = (0, 0);
        let mut index = if octet >= 100 {
            0
        } else if octet >= 10 {
            1
        } else {
            2
        };
        while index < 3 {
            text |= (b'0' as u32 + digits[index]) << (8 * len);
            len += 1;
            index += 1;
        }
        octets[octet as usize] = (text | (b'.' as u32) << (8 * len), len as u8 + 1);
        octet += 1;
    }
    octets
};

macro_rules! impl_display_parts {
    ($($part:ty),*) => { $(
        impl KeyPart for $part {
            fn with_text(&self, write: &mut dyn FnMut(&str)) {
                write(&self.to_string());
            }
        }
    )* };
}

impl_display_parts! { usize, isize, u128, i128, IpAddr, Ipv4Addr, Ipv6Addr }

macro_rules! impl_key_from_part {
    ($($part:ty),* => $key:expr) => { $(
        impl<'k> From<$part> for Key<'k> {
            #[inline]
            fn from(part: $part) -> Self {
                Key::from(&part)
            }
        }
        impl<'k> From<&$part> for Key<'k> {
            #[inline]
            #[allow(clippy::useless_conversion)] // of the widest of the numbers
            fn from(part: &$part) -> Self {
                $key(part)
            }
        }
    )* };
}

impl_key_from_part! { u8, u16, u32, u64 => |number: &_| Key::from_number(u64::from(*number), false) }
impl_key_from_part! { i8, i16, i32, i64 => |number: &_| Key::from_number(i64::from(*number).unsigned_abs(), i64::from(*number) < 0) }
impl_key_from_part! { usize, isize, u128, i128, Ipv6Addr => |part: &_| Key::from_part(&ToString::to_string(part)) }
impl_key_from_part! { Ipv4Addr => |address: &Ipv4Addr| Key::inline(dotted_quad(*address)) }
impl_key_from_part! { IpAddr => |address: &IpAddr| match address {
    IpAddr::V4(address) => Key::from(address),
    IpAddr::V6(address) => Key::from(address),
} }

impl<'k, const N: usize> From<[u8; N]> for Key<'k> {
    fn from(bytes: [u8; N]) -> Self {
        Key::from(to_hex(&bytes))
    }
}

impl<'k, const N: usize> From<&[u8; N]> for Key<'k> {
    fn from(bytes: &[u8; N]) -> Self {
        Key::from(to_hex(bytes))
    }
}

macro_rules! impl_key_from_tuples {
    ($(($($name:ident $index:tt),+);)*) => { $(
        impl<'k, $($name: KeyPart),+> From<($($name,)+)> for Key<'k> {
            fn from(parts: ($($name,)+)) -> Self {
                let mut text = KeyText::new();
                $( parts.$index.with_text(&mut |part| text.push_part(part)); )+
                text.finish(Encoding::Escaped)
            }
        }
    )* };
}

impl_key_from_tuples! {
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_shared_text_equals_its_text() {
        let shared: Arc<str> = Arc::from("ann|b");
        assert_eq!(Key::from(&shared), Key::from("ann|b"));
        assert_eq!(Key::from(Arc::clone(&shared)), Key::from("ann|b"));
        assert_eq!(Key::from(Box::<str>::from("ann|b")), Key::from("ann|b"));
        assert_eq!(Key::from(Cow::Borrowed("ann|b")), Key::from("ann|b"));
        assert_eq!(Key::from((shared, 7_u64)), Key::from(("ann|b", 7_u64)));
    }

    #[test]
    fn key_of_bytes_is_lowercase_hex() {
        let uuid = 0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8_u128.to_be_bytes();
        assert_eq!(Key::from(uuid), Key::from("67e5504410b1426f9247bb680e5fe0c8"));
        assert_eq!(Key::from(&uuid), Key::from(uuid));
        assert_eq!(Key::from(("user", uuid)), Key::from(("user", "67e5504410b1426f9247bb680e5fe0c8")));
        assert_eq!(Key::from([0_u8; 0]), Key::from(""));
    }

    #[test]
    fn key_of_a_number_or_address_equals_its_text() {
        let powers = (0..19).map(|power| 10_i64.pow(power)).flat_map(|power| [power - 1, power, power + 1]);
        for number in powers.chain([7, i64::MAX]).flat_map(|number| [number, -number]).chain([i64::MIN]) {
            assert_eq!(Key::from(number).to_text(), number.to_string());
        }
        // Zeros in the middle are digits, too.
        assert_eq!(Key::from(10_u64.pow(19) + 7).to_text(), (10_u64.pow(19) + 7).to_string());
        assert_eq!(Key::from(u64::MAX).to_text(), u64::MAX.to_string());
        assert_eq!(Key::from(IpAddr::from([127, 0, 0, 1])), Key::from("127.0.0.1"));
        assert_eq!(Key::from(IpAddr::from(Ipv6Addr::LOCALHOST)), Key::from("::1"));
        for octet in 0..=255 {
            for address in [[octet, 255 - octet, 0, octet], [255, 255, octet, 255], [octet, 1, 255 - octet, 10]] {
                let address = Ipv4Addr::from(address);
                assert_eq!(Key::from(address).to_text(), address.to_string());
            }
        }
    }
}
