//! The table that the stores on databases share: its name, and the keys of its rows.

mod row_key;
mod table_name;

pub(super) use row_key::RowKeyEncoder;
pub(super) use table_name::TableName;
