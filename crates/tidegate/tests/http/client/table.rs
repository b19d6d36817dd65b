//! Cases as a table of text, so that a row is a case.

use super::{headers, ip, reading};

/// Tries each row of `table`: name, trust, peer, the header's lines, who is found, and why.
///
/// Lines of the header have ` // ` between them; `-` is no line, `<empty>` an empty one, `<tab>` a tab.
pub(super) fn try_each(header: &'static str, table: &str) {
    let rows: Vec<&str> = table.lines().map(str::trim).filter(|row| !row.is_empty() && !row.starts_with('#')).collect();
    let wrong: Vec<String> = rows.iter().filter_map(|row| try_row(header, row)).collect();
    assert!(wrong.is_empty(), "{} of {} cases of {header}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    let names: std::collections::HashSet<_> = rows.iter().map(|row| row.split(" | ").next()).collect();
    assert_eq!(names.len(), rows.len(), "a name twice");
}

/// What is wrong, if anything.
fn try_row(header: &'static str, row: &str) -> Option<String> {
    let cells: Vec<&str> = row.split(" | ").map(|cell| cell.trim_matches(' ')).collect();
    let [name, trust, peer, lines, expected, why] = cells[..] else { panic!("six cells: {row}") };
    let lines: Vec<String> = match lines {
        "-" => Vec::new(),
        lines => lines.split(" // ").map(|line| line.replace("<empty>", "").replace("<tab>", "\t")).collect(),
    };
    let clients = reading(header, trust);
    let found = clients.find(ip(peer), &headers(header, &lines).expect("a header")).address();
    let in_lines = clients.find_in_lines(ip(peer), lines.iter().map(String::as_bytes)).address();
    assert_eq!(found, in_lines, "{name}");
    // Other headers are there, and are not read.
    let mut others = headers(header, &lines).expect("a header");
    for other in ["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip"] {
        if other != header {
            others.insert(other, if other == "forwarded" { "for=6.6.6.6" } else { "6.6.6.6" }.parse().unwrap());
        }
    }
    assert_eq!(found, clients.find(ip(peer), &others).address(), "{name}: another header was read");
    (found != ip(expected)).then(|| format!("  {name}: found {found}, expected {expected}: {why}"))
}
