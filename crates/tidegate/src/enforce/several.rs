//! What several limits said, in memory that is used again.

use std::cell::RefCell;
use std::mem;
use std::ops::{Deref, DerefMut};

use super::Ruling;

/// How many lists a thread keeps for later, and of how many rulings at most: as many as it will have requests at hand, and no
/// more than is nothing to speak of.
const SPARE: usize = 64;
const LONGEST: usize = 16;

thread_local! {
    static SPARES: RefCell<Vec<Vec<Ruling>>> = const { RefCell::new(Vec::new()) };
}

/// What several limits said. It goes along with its request, and has to be small for that; so it is on the heap, where the
/// thread keeps the place for another request when this one is done with it.
#[derive(Debug, Default)]
pub(super) struct Several(Vec<Ruling>);

impl FromIterator<Ruling> for Several {
    fn from_iter<I: IntoIterator<Item = Ruling>>(rulings: I) -> Self {
        // None while the thread's own variables are torn down.
        let spare = SPARES.try_with(|spares| spares.borrow_mut().pop()).ok().flatten();
        let mut several = Several(spare.unwrap_or_default());
        several.0.extend(rulings);
        several
    }
}

impl Clone for Several {
    fn clone(&self) -> Self {
        self.iter().cloned().collect()
    }
}

impl Drop for Several {
    fn drop(&mut self) {
        self.0.clear();
        if (1..=LONGEST).contains(&self.0.capacity()) {
            let spare = mem::take(&mut self.0);
            let _ = SPARES.try_with(|spares| {
                let mut spares = spares.borrow_mut();
                if spares.len() < SPARE {
                    spares.push(spare);
                }
            });
        }
    }
}

impl Deref for Several {
    type Target = [Ruling];

    fn deref(&self) -> &[Ruling] {
        &self.0
    }
}

impl DerefMut for Several {
    fn deref_mut(&mut self) -> &mut [Ruling] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Decision;

    use super::*;
    use crate::enforce::Axis;

    fn several(limits: usize) -> Several {
        let ruling = Ruling::new("api".into(), None, Decision::denied_by_list(1), Axis::Rate);
        (0..limits).map(|_| ruling.clone()).collect()
    }

    fn spares() -> usize {
        SPARES.with(|spares| spares.borrow().len())
    }

    #[test]
    fn a_thread_keeps_few_places_and_uses_them_again() {
        drop(several(3));
        assert_eq!(spares(), 1);
        let used_again = several(2);
        assert_eq!((spares(), used_again.len(), used_again.clone().len()), (0, 2, 2));
        drop(used_again);
        // That of the clone, too.
        assert_eq!(spares(), 2);

        let many: Vec<_> = (0..2 * SPARE).map(|_| several(2)).collect();
        assert_eq!(spares(), 0);
        drop(many);
        assert_eq!(spares(), SPARE);
        let too_long: Vec<_> = (0..SPARE).map(|_| several(LONGEST + 1)).collect();
        drop(too_long);
        assert_eq!(spares(), 0);
    }

    #[test]
    fn nothing_is_kept_of_no_limits() {
        drop(Several::default());
        assert_eq!(spares(), 0);
    }
}
