//! Rows in memory that count calls, for tests without an object.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;

use tidegate::{StoreError, StoreErrorKind};

use super::table::{Row, Rows, WriteError};

#[derive(Default)]
pub(crate) struct MemoryRows {
    pub(crate) rows: RefCell<BTreeMap<String, Row>>,
    pub(crate) reads: Cell<usize>,
    pub(crate) writes: Cell<usize>,
    pub(crate) pages: Cell<usize>,
    /// Makes every write fail.
    pub(crate) is_full: Cell<bool>,
    pub(crate) is_shard_count_unset: Cell<bool>,
}

impl MemoryRows {
    fn begin_write(&self) -> Result<(), WriteError> {
        if self.is_shard_count_unset.get() {
            return Err(WriteError::UnsetShardCount);
        }
        if self.is_full.get() {
            return Err(WriteError::Store(StoreError::new(StoreErrorKind::Unavailable, "full")));
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

    fn write(&self, rows: &[Row]) -> Result<(), WriteError> {
        self.begin_write()?;
        self.rows.borrow_mut().extend(rows.iter().map(|row| (row.name.clone(), row.clone())));
        Ok(())
    }

    fn delete(&self, name: &str) -> Result<(), WriteError> {
        self.begin_write()?;
        self.rows.borrow_mut().remove(name);
        Ok(())
    }

    fn page_end(&self, after: &str, page_rows: u32) -> Result<Option<String>, StoreError> {
        self.pages.set(self.pages.get() + 1);
        let rows = self.rows.borrow();
        let mut next = rows.range::<str, _>((Bound::Excluded(after), Bound::Unbounded)).skip(page_rows as usize - 1);
        Ok(next.next().map(|(name, _)| name.clone()))
    }

    fn evict(&self, after: &str, last: Option<&str>, now: u64, is_test: bool) -> Result<Vec<String>, StoreError> {
        let mut rows = self.rows.borrow_mut();
        let last = last.map_or(Bound::Unbounded, Bound::Included);
        let evicted: Vec<_> = rows
            .range::<str, _>((Bound::Excluded(after), last))
            .filter(|(_, row)| row.new_at <= now && row.is_test == is_test)
            .map(|(name, _)| name.clone())
            .collect();
        evicted.iter().for_each(|name| drop(rows.remove(name)));
        Ok(evicted)
    }
}
