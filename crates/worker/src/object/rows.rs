//! What an object asks of its storage.

use tidegate::StoreError;

/// A key's row after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The state and its quota.
    pub(crate) value: Vec<u8>,
    /// When the key is as good as new, in microseconds.
    pub(crate) new_at: u64,
    /// A test has said when it is: such a row is not swept by the real time.
    pub(crate) given: bool,
}

/// How large a state may be, in bytes. The storage takes two million of a text or a blob, and a row among others is written
/// in a text, where a byte is two letters.
pub(crate) const LARGEST: usize = 900_000;

/// Why nothing was written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// Nobody has settled yet how many objects there are: that comes before the first write.
    Unsettled,
    Failed(StoreError),
}

/// The rows of one object. Each call is one statement, and nothing else happens to the storage meanwhile.
pub(crate) trait Rows {
    /// What is kept under a name.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Writes all of these, or nothing.
    fn write(&self, rows: &[Row]) -> Result<(), Unwritten>;

    /// Forgets what is kept under a name.
    fn delete(&self, name: &str) -> Result<(), Unwritten>;

    /// The last name of the next so many rows after a name; none when there are not as many.
    fn page(&self, after: &str, page: u32) -> Result<Option<String>, StoreError>;

    /// Forgets the rows after a name and up to another, or to the end, that are as good as new at `now`, in microseconds:
    /// those of tests, or the others. Says which.
    fn forget(&self, after: &str, last: Option<&str>, now: u64, given: bool) -> Result<Vec<String>, StoreError>;
}
