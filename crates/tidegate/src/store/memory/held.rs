//! Several lines held at once, always taken in the order of their numbers, so that nobody waits in a circle.

use smallvec::SmallVec;

use super::line::Held;
use super::table::{Home, Table};

/// The lines of one or more keys, held.
pub(super) trait HeldLines {
    /// One of the lines, by its number.
    fn get(&self, line: usize) -> &Held<'_>;
}

/// The two lines of one key, which may be the same one.
pub(super) struct Pair<'a> {
    low: (usize, Held<'a>),
    high: Option<Held<'a>>,
}

impl<'a> Pair<'a> {
    pub(super) fn lock(table: &'a Table, home: Home) -> Self {
        let (low, high) = (home.first.min(home.second), home.first.max(home.second));
        let held = table.line(low).lock();
        Pair { low: (low, held), high: (high != low).then(|| table.line(high).lock()) }
    }
}

impl HeldLines for Pair<'_> {
    fn get(&self, line: usize) -> &Held<'_> {
        match &self.high {
            Some(high) if line != self.low.0 => high,
            _ => &self.low.1,
        }
    }
}

/// The lines of several keys: two for each of a [`Few`](tidegate_core::private::Few).
pub(super) struct Many<'a>(Twice<(usize, Held<'a>)>);

type Twice<T> = SmallVec<[T; 8]>;

impl<'a> Many<'a> {
    pub(super) fn lock(table: &'a Table, homes: impl Iterator<Item = Home>) -> Self {
        let mut lines: Twice<_> = homes.flat_map(|home| [home.first, home.second]).collect();
        lines.sort_unstable();
        lines.dedup();
        Many(lines.into_iter().map(|line| (line, table.line(line).lock())).collect())
    }
}

impl HeldLines for Many<'_> {
    fn get(&self, line: usize) -> &Held<'_> {
        let index = self.0.binary_search_by_key(&line, |(line, _)| *line).expect("a line of one of the keys");
        &self.0[index].1
    }
}
