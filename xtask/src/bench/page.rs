//! What was measured, in `docs/performance.md`.

use std::fs;

use crate::cargo::Failed;

const PAGE: &str = "docs/performance.md";

/// Puts what a part has said into its place on the page.
pub(super) fn put(part: &str, said: &str) -> Result<(), Failed> {
    let failed = |error: std::io::Error| Failed(format!("{PAGE}: {error}"));
    let page = fs::read_to_string(PAGE).map_err(failed)?;
    let text = format!("{}\n{}", machine(), said.trim());
    match placed(&page, part, &text) {
        Some(page) => fs::write(PAGE, page).map_err(failed),
        None => Err(Failed(format!("{PAGE}: there is no place for {part}: expected {} in it", begin(part)))),
    }
}

fn begin(part: &str) -> String {
    format!("<!-- bench {part} -->\n")
}

const END: &str = "<!-- end -->";

/// The page with that text in the place of a part.
fn placed(page: &str, part: &str, text: &str) -> Option<String> {
    let begin = begin(part);
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}```text\n{text}\n```\n{END}{after}"))
}

/// What it was measured on: the processor, how many of them, and how busy they were.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("unknown");
    format!("On {model}, {cores} cores; load average at the end of it {load}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_a_place_and_nothing_else_changes() {
        let page = "a\n<!-- bench speed -->\nold\n<!-- end -->\nb\n<!-- bench http -->\n<!-- end -->\nc\n";
        let with = placed(page, "speed", "1\n2").unwrap();
        assert_eq!(
            with,
            "a\n<!-- bench speed -->\n```text\n1\n2\n```\n<!-- end -->\nb\n<!-- bench http -->\n<!-- end -->\nc\n"
        );
        assert_eq!(placed(&with, "speed", "1\n2").unwrap(), with);
        assert_eq!(placed(page, "ws", "1"), None);
    }
}
