//! The first time at which something that stays true becomes true.

/// The first whole number, not below `from`, at which `holds`, which never turns false again. None when it does not
/// hold anywhere a decision could point to.
pub(super) fn first(from: i128, holds: impl Fn(i128) -> bool) -> Option<i128> {
    if holds(from) {
        return Some(from);
    }
    // Doubling steps until it holds, then halving the last one. A quota leads to at most 2^34 units of 2^45 us.
    let mut step = 1_i128;
    while !holds(from + step) {
        step *= 2;
        if step > 1 << 100 {
            return None;
        }
    }
    let (mut fails, mut holds_at) = (from + step / 2, from + step);
    while holds_at - fails > 1 {
        let middle = fails + (holds_at - fails) / 2;
        if holds(middle) { holds_at = middle } else { fails = middle }
    }
    Some(holds_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_edge() {
        for edge in 0..200 {
            assert_eq!(first(0, |at| at >= edge), Some(edge));
            assert_eq!(first(edge, |_| true), Some(edge));
        }
        assert_eq!(first(7, |_| false), None);
    }
}
