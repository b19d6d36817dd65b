//! Merge keys: `<<: *other` brings the fields of another table, where the table does not say otherwise.

use crate::config::tree::{Entry, Node, Value};

/// Merges wherever it is asked for. The tree does not grow: what is merged moves.
pub(super) fn merge(node: &mut Node) {
    match &mut node.value {
        Value::List(nodes) => nodes.iter_mut().for_each(merge),
        Value::Table(entries) => {
            entries.iter_mut().for_each(|entry| merge(&mut entry.node));
            let asked = entries.iter().position(|entry| entry.key == "<<" && is_mergeable(&entry.node));
            if let Some(index) = asked {
                for entry in tables(entries.remove(index).node) {
                    // Of several, the first wins.
                    if !entries.iter().any(|known| known.key == entry.key) {
                        entries.push(entry);
                    }
                }
            }
        }
        _ => {}
    }
}

fn is_mergeable(node: &Node) -> bool {
    match &node.value {
        Value::Table(_) => true,
        Value::List(nodes) => nodes.iter().all(|node| matches!(node.value, Value::Table(_))),
        _ => false,
    }
}

/// The fields of a table, or of every table in a list.
fn tables(node: Node) -> Vec<Entry> {
    match node.value {
        Value::Table(entries) => entries,
        Value::List(nodes) => nodes.into_iter().flat_map(tables).collect(),
        _ => Vec::new(),
    }
}
