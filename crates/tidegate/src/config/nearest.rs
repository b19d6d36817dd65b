//! The name that was probably meant.

/// The nearest of the known names, when one is near: a letter or two apart, fewer for short names.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let most = |known: &str| (name.len().max(known.len()) / 3).clamp(1, 3);
    let near = known.iter().map(|known| (distance(name, known), *known));
    near.filter(|(distance, known)| *distance <= most(known))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// How many letters have to be added, removed, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut last = None;
    // A long name is near none of ours, and is not worth the work.
    for (i, a) in a.chars().take(64).enumerate() {
        let mut next = vec![i + 1];
        for (j, letter) in b.iter().enumerate() {
            let mut best = (row[j] + usize::from(a != *letter)).min(row[j + 1] + 1).min(next[j] + 1);
            if j > 0 && last == Some(*letter) && b[j - 1] == a {
                best = best.min(before[j - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
        last = Some(a);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let known = ["algorithm", "rate", "period", "capacity", "on_store_error", "deny"];
        for (name, expected) in [
            ("rat", Some("rate")),
            ("raet", Some("rate")),
            ("Rate", Some("rate")),
            ("algoritm", Some("algorithm")),
            ("capacty", Some("capacity")),
            ("on_error", None),
            ("burst", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, &known), expected, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), &known), None);
    }
}
