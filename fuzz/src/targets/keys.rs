//! Keys.

use std::borrow::Cow;

use tidegate::Key;

/// Checks that different parts make different keys. No key made of parts may equal a reserved key, a fallback key or a
/// shard.
///
/// The input is two keys with `\x1f` between them, each of parts with `\n` between them.
pub fn keys(data: &[u8]) {
    let mut keys = data.splitn(2, |byte| *byte == 0x1f).map(parts);
    let (first, second) = (keys.next().unwrap_or_default(), keys.next().unwrap_or_default());
    let (key, other) = (Key::from_parts(&first), Key::from_parts(&second));

    assert_eq!(key.parts().collect::<Vec<_>>(), first, "not the parts it was made of");
    assert_eq!(key == other, first == second, "{first:?} {second:?}");
    assert_eq!(key.as_raw() == other.as_raw(), first == second, "{first:?} {second:?}");
    assert_eq!(key.to_text() == other.to_text(), first == second, "{first:?} {second:?}");
    assert_eq!(key.to_text().is_empty(), first.is_empty(), "GLOBAL is the only empty text");
    assert_eq!(key.clone().into_owned(), key);
    if let [only] = &first[..] {
        assert_eq!(Key::from(&**only), key, "one part is the part itself");
    }

    let joined = key.join(&other);
    assert_eq!(joined.parts().collect::<Vec<_>>(), [first.clone(), second.clone()].concat());
    for apart in [other.to_reserved(), other.to_fallback(), other.with_shard(7), Key::shard(7)] {
        assert_ne!(key, apart, "{first:?} is set apart");
        assert_ne!(joined.to_text(), apart.to_text(), "{first:?} {second:?} is set apart");
    }
    let chosen = Key::from_parts(["%a"]).join(&key).join(&other);
    assert_ne!(key.to_reserved().join(&other), chosen, "{first:?} was set apart, and is not any more");
    assert_ne!(key.to_reserved().join(&other).map_parts(|part| part.into()), chosen);
    assert_eq!(key.to_reserved() == other.to_reserved(), first == second, "{first:?} {second:?}");
    assert_ne!(key.to_reserved(), other.with_shard(7));
}

fn parts(bytes: &[u8]) -> Vec<Cow<'_, str>> {
    match bytes {
        [] => Vec::new(),
        bytes => bytes.split(|byte| *byte == b'\n').map(String::from_utf8_lossy).collect(),
    }
}
