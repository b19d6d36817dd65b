//! A slab with one list of records per class, which returns a record of the lowest class in constant time.
//!
//! Entries never move by themselves, so growing never copies the whole slab. Removing the last records frees the memory
//! behind them.

/// The number of entries that are allocated together. It is small in tests, so that slabs grow and shrink.
const SEGMENT_LEN: usize = if cfg!(test) { 4 } else { 64 };
/// The number of classes.
pub(super) const CLASSES: usize = 256;
/// The list of vacant entries, after those of the classes.
const VACANT: usize = CLASSES;
/// The end of a list.
const NONE: u32 = u32::MAX;

/// A slab of values, each of a class.
pub(super) struct Slab<T> {
    segments: Vec<Box<[Entry<T>]>>,
    /// One for each class, and one for vacant entries.
    lists: Box<[List]>,
    /// A bit for each class that has values.
    classes: [u64; CLASSES / 64],
    /// The number of entries in use or vacant. Entries behind them are in no list.
    len: usize,
    vacant: usize,
}

struct Entry<T> {
    list: u16,
    previous: u32,
    next: u32,
    value: Option<T>,
}

/// The ends of a list of entries.
#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

impl<T> Slab<T> {
    pub(super) const ENTRY_BYTES: usize = size_of::<Entry<T>>();

    pub(super) fn new() -> Self {
        Slab {
            segments: Vec::new(),
            lists: vec![List { first: NONE, last: NONE }; CLASSES + 1].into(),
            classes: [0; CLASSES / 64],
            len: 0,
            vacant: 0,
        }
    }

    /// Returns how many entries there are, vacant ones included.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether so many entries are vacant that moving the last value makes sense.
    pub(super) fn is_sparse(&self) -> bool {
        self.vacant >= 2 * SEGMENT_LEN
    }

    /// Stores a value and returns its place.
    pub(super) fn insert(&mut self, value: T, class: usize) -> usize {
        let place = match self.lists[VACANT].first {
            NONE => self.grow(),
            vacant => {
                self.unlink(vacant as usize);
                vacant as usize
            }
        };
        self.entry(place).value = Some(value);
        self.link(place, class);
        place
    }

    /// Returns the value at a place.
    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.entry(place).value.as_mut()
    }

    /// Returns the class of the value at a place.
    pub(super) fn class(&mut self, place: usize) -> usize {
        self.entry(place).list.into()
    }

    /// Sets the class of the value at a place. It comes last in another class, and keeps its turn in the same one.
    pub(super) fn set_class(&mut self, place: usize, class: usize) {
        if self.class(place) != class {
            self.requeue(place, class);
        }
    }

    /// Makes the value at a place the last of a class.
    pub(super) fn requeue(&mut self, place: usize, class: usize) {
        if self.lists[class].last as usize != place {
            self.unlink(place);
            self.link(place, class);
        }
    }

    /// Removes the value at a place.
    pub(super) fn remove(&mut self, place: usize) -> Option<T> {
        let value = self.vacate(place);
        self.trim();
        value
    }

    /// Returns the lowest class that has a value; [`CLASSES`] when none has.
    pub(super) fn lowest_class(&self) -> usize {
        let word = self.classes.iter().position(|classes| *classes != 0);
        word.map_or(CLASSES, |word| word * 64 + self.classes[word].trailing_zeros() as usize)
    }

    /// Returns the first value of the lowest class.
    pub(super) fn first(&mut self) -> Option<&mut T> {
        let class = self.lowest_class();
        if class == CLASSES { None } else { self.get_mut(self.lists[class].first as usize) }
    }

    /// Returns the last value.
    pub(super) fn last(&mut self) -> Option<&mut T> {
        self.trim();
        self.get_mut(self.len.checked_sub(1)?)
    }

    /// Moves a value into a vacant entry before it, if there is one. Returns its place.
    pub(super) fn move_down(&mut self, place: usize) -> usize {
        if self.lists[VACANT].first as usize > place {
            return place;
        }
        let class = self.class(place);
        let Some(value) = self.vacate(place) else { return place };
        // Into the first vacant entry: the one that has just become vacant is the last of them.
        let moved = self.insert(value, class);
        self.trim();
        moved
    }

    fn vacate(&mut self, place: usize) -> Option<T> {
        let value = self.entry(place).value.take()?;
        self.unlink(place);
        self.link(place, VACANT);
        Some(value)
    }

    /// Frees vacant entries at the end, as many as one segment has, so that no call takes long.
    fn trim(&mut self) {
        for _ in 0..SEGMENT_LEN {
            let Some(last) = self.len.checked_sub(1) else { break };
            if self.entry(last).value.is_some() {
                break;
            }
            self.unlink(last);
            self.len = last;
        }
        // One segment is kept, for a slab that grows and shrinks by one value.
        self.segments.truncate(self.len.div_ceil(SEGMENT_LEN) + 1);
    }

    /// Returns the place of a new entry at the end.
    fn grow(&mut self) -> usize {
        if self.len == self.segments.len() * SEGMENT_LEN {
            let entry = |_| Entry { list: VACANT as u16, previous: NONE, next: NONE, value: None };
            self.segments.push((0..SEGMENT_LEN).map(entry).collect());
        }
        self.len += 1;
        self.len - 1
    }

    fn entry(&mut self, place: usize) -> &mut Entry<T> {
        &mut self.segments[place / SEGMENT_LEN][place % SEGMENT_LEN]
    }

    /// Appends an entry to a list.
    fn link(&mut self, place: usize, list: usize) {
        let link = u32::try_from(place).expect("more entries than any memory holds");
        let previous = std::mem::replace(&mut self.lists[list].last, link);
        match previous {
            NONE => self.lists[list].first = link,
            previous => self.entry(previous as usize).next = link,
        }
        let entry = self.entry(place);
        (entry.list, entry.previous, entry.next) = (list as u16, previous, NONE);
        match list {
            VACANT => self.vacant += 1,
            class => self.classes[class / 64] |= 1 << (class % 64),
        }
    }

    /// Takes an entry out of its list.
    fn unlink(&mut self, place: usize) {
        let Entry { list, previous, next, .. } = *self.entry(place);
        let list = usize::from(list);
        match previous {
            NONE => self.lists[list].first = next,
            previous => self.entry(previous as usize).next = next,
        }
        match next {
            NONE => self.lists[list].last = previous,
            next => self.entry(next as usize).previous = previous,
        }
        match list {
            VACANT => self.vacant -= 1,
            class if self.lists[class].first == NONE => self.classes[class / 64] &= !(1 << (class % 64)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use super::*;

    /// The places of each class in their order, as the slab should have them.
    type Model = BTreeMap<usize, VecDeque<usize>>;

    fn take_place(model: &mut Model, place: usize) -> usize {
        let class = *model.iter().find(|(_, places)| places.contains(&place)).unwrap().0;
        model.get_mut(&class).unwrap().retain(|known| *known != place);
        model.retain(|_, places| !places.is_empty());
        class
    }

    #[test]
    fn first_value_is_the_oldest_of_the_lowest_class() {
        let mut slab = Slab::new();
        let (mut model, mut random) = (Model::new(), 1_u64);
        let mut below = |range: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % range
        };
        for round in 0..20_000 {
            let places: Vec<usize> = model.values().flatten().copied().collect();
            // It grows to hundreds of values and shrinks to none, again and again.
            let action = if round / 1_000 % 2 == 0 { below(6) } else { 2 + below(6) };
            if action < 2 || places.is_empty() {
                let class = below(4) * 70;
                let place = slab.insert(round, class);
                assert!(!places.contains(&place));
                model.entry(class).or_default().push_back(place);
            } else {
                let place = places[below(places.len())];
                match action {
                    2 | 3 => {
                        let class = below(4) * 70;
                        if action == 2 || slab.class(place) != class {
                            take_place(&mut model, place);
                            model.entry(class).or_default().push_back(place);
                        }
                        match action {
                            2 => slab.requeue(place, class),
                            _ => slab.set_class(place, class),
                        }
                    }
                    4 => {
                        let value = *slab.get_mut(place).unwrap();
                        let moved = slab.move_down(place);
                        assert!(moved <= place && slab.get_mut(moved) == Some(&mut { value }));
                        if moved != place {
                            let class = take_place(&mut model, place);
                            model.entry(class).or_default().push_back(moved);
                        }
                    }
                    _ => {
                        assert_eq!(slab.class(place), take_place(&mut model, place));
                        assert!(slab.remove(place).is_some());
                    }
                }
            }
            let lowest = model.first_key_value();
            assert_eq!(slab.lowest_class(), lowest.map_or(CLASSES, |(class, _)| *class));
            let first = lowest.map(|(_, places)| *slab.get_mut(places[0]).unwrap());
            assert_eq!(slab.first().copied(), first);
        }
    }

    #[test]
    fn removed_values_give_their_memory_back() {
        let mut slab = Slab::new();
        let places: Vec<usize> = (0..100).map(|value| slab.insert(value, 7)).collect();
        // One value of ten is left, each in a segment of its own or nearly.
        assert!(places.iter().filter(|place| **place % 10 > 0).all(|place| slab.remove(*place).is_some()));
        while slab.is_sparse() {
            let vacant_end = slab.last().is_none();
            let last = slab.len() - 1;
            assert!(vacant_end || slab.move_down(last) < last);
        }
        let mut left: Vec<_> = (0..slab.len()).filter_map(|place| slab.get_mut(place).copied()).collect();
        left.sort_unstable();
        assert_eq!(left, (0..100).step_by(10).collect::<Vec<_>>());
        assert!(slab.segments.len() * SEGMENT_LEN <= 10 + 4 * SEGMENT_LEN, "{}", slab.segments.len());
    }
}
