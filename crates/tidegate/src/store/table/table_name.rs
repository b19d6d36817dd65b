//! The name of the table.

use std::fmt;

use tidegate_core::{StoreError, StoreErrorKind};

/// The longest name. With the suffix of an index or a function, it is still a valid identifier.
const MAX_NAME_LEN: usize = 40;

/// The name of a table, with an optional schema. It consists of letters, digits and underscores only, so statements can
/// contain it unescaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableName {
    schema: Option<String>,
    name: String,
}

impl TableName {
    pub(crate) fn new(name: &str) -> Result<Self, StoreError> {
        let (schema, table) = name.split_once('.').map_or((None, name), |(schema, table)| (Some(schema), table));
        if schema.into_iter().chain([table]).all(is_identifier) {
            return Ok(TableName { schema: schema.map(str::to_owned), name: table.to_owned() });
        }
        Err(StoreError::new(
            StoreErrorKind::Unsupported,
            format!(
                "the table's name {name:?}: accepted are 1 to {MAX_NAME_LEN} ASCII letters, digits and underscores, no digit \
                 first, and a schema of that kind with a dot before it"
            ),
        ))
    }

    /// Returns the quoted name of an object that belongs to the table and is in its schema: the name of the table and `suffix`.
    pub(crate) fn with_suffix(&self, suffix: &str) -> String {
        match &self.schema {
            Some(schema) => format!("\"{schema}\".\"{}{suffix}\"", self.name),
            None => format!("\"{}{suffix}\"", self.name),
        }
    }

    /// Returns the name without its schema.
    pub(crate) fn unqualified(&self) -> &str {
        &self.name
    }
}

impl Default for TableName {
    fn default() -> Self {
        TableName { schema: None, name: "tidegate".to_owned() }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_suffix(""))
    }
}

fn is_identifier(name: &str) -> bool {
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts && name.len() <= MAX_NAME_LEN && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_name_must_be_a_plain_identifier() {
        for (name, quoted) in [("tidegate", "\"tidegate\""), ("app.Limits_2", "\"app\".\"Limits_2\"")] {
            assert_eq!(TableName::new(name).unwrap().to_string(), quoted);
        }
        assert_eq!(TableName::new("app.limits").unwrap().with_suffix("_step"), "\"app\".\"limits_step\"");
        let long = "x".repeat(41);
        for name in ["", ".", "a.", ".a", "a.b.c", "1a", "a\"b", "a b", "a;drop table b", "é", "a\0", &long] {
            let error = TableName::new(name).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unsupported);
            assert!(error.to_string().contains("accepted are"), "{error}");
        }
    }
}
