//! Rows in memory, for tests without an object: what a storage is, and how often it was asked.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;

use tidegate::{StoreError, StoreErrorKind};

use super::rows::{Row, Rows, Unwritten};

#[derive(Default)]
pub(crate) struct MemoryRows {
    pub(crate) rows: RefCell<BTreeMap<String, Row>>,
    pub(crate) reads: Cell<usize>,
    pub(crate) writes: Cell<usize>,
    pub(crate) pages: Cell<usize>,
    /// Every write fails.
    pub(crate) is_full: Cell<bool>,
    pub(crate) is_unsettled: Cell<bool>,
}

impl MemoryRows {
    fn writing(&self) -> Result<(), Unwritten> {
        if self.is_unsettled.get() {
            return Err(Unwritten::Unsettled);
        }
        if self.is_full.get() {
            return Err(Unwritten::Failed(StoreError::new(StoreErrorKind::Unavailable, "full")));
        }
        self.writes.set(self.writes.get() + 1);
        Ok(())
    }
}

impl Rows for MemoryRows {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.reads.set(self.reads.get() + 1);
        Ok(self.rows.borrow().get(name).map(|row| row.value.clone()))
    }

    fn write(&self, rows: &[Row]) -> Result<(), Unwritten> {
        self.writing()?;
        self.rows.borrow_mut().extend(rows.iter().map(|row| (row.name.clone(), row.clone())));
        Ok(())
    }

    fn delete(&self, name: &str) -> Result<(), Unwritten> {
        self.writing()?;
        self.rows.borrow_mut().remove(name);
        Ok(())
    }

    fn page(&self, after: &str, page: u32) -> Result<Option<String>, StoreError> {
        self.pages.set(self.pages.get() + 1);
        let rows = self.rows.borrow();
        let mut next = rows.range::<str, _>((Bound::Excluded(after), Bound::Unbounded)).skip(page as usize - 1);
        Ok(next.next().map(|(name, _)| name.clone()))
    }

    fn forget(&self, after: &str, last: Option<&str>, now: u64, given: bool) -> Result<Vec<String>, StoreError> {
        let mut rows = self.rows.borrow_mut();
        let last = last.map_or(Bound::Unbounded, Bound::Included);
        let forgotten: Vec<_> = rows
            .range::<str, _>((Bound::Excluded(after), last))
            .filter(|(_, row)| row.new_at <= now && row.given == given)
            .map(|(name, _)| name.clone())
            .collect();
        forgotten.iter().for_each(|name| drop(rows.remove(name)));
        Ok(forgotten)
    }
}
