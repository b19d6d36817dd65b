//! Writes the results of a benchmark into `docs/book/src/explanation/performance.md`.

use std::fs;

use crate::cargo::TaskError;

const PAGE: &str = "docs/book/src/explanation/performance.md";

/// Writes the output of a part into its section of the page.
pub(super) fn write_results(part: &str, output: &str) -> Result<(), TaskError> {
    let failed = |error: std::io::Error| TaskError(format!("{PAGE}: {error}"));
    let page = fs::read_to_string(PAGE).map_err(failed)?;
    let text = format!("{}\n{}", describe_machine(), output.trim());
    match replace_section(&page, part, &text) {
        Some(page) => fs::write(PAGE, page).map_err(failed),
        None => Err(TaskError(format!("{PAGE}: there is no place for {part}: expected {} in it", begin_marker(part)))),
    }
}

fn begin_marker(part: &str) -> String {
    format!("<!-- bench {part} -->\n")
}

const END_MARKER: &str = "<!-- end -->";

/// Returns the page with that text in the section of a part.
fn replace_section(page: &str, part: &str, text: &str) -> Option<String> {
    let begin = begin_marker(part);
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(END_MARKER)?;
    Some(format!("{before}{begin}```text\n{text}\n```\n{END_MARKER}{after}"))
}

/// Describes the machine of a measurement: its processors, their number, and how busy they were.
fn describe_machine() -> String {
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
    fn only_the_section_of_the_part_changes() {
        let page = "a\n<!-- bench speed -->\nold\n<!-- end -->\nb\n<!-- bench http -->\n<!-- end -->\nc\n";
        let with = replace_section(page, "speed", "1\n2").unwrap();
        assert_eq!(
            with,
            "a\n<!-- bench speed -->\n```text\n1\n2\n```\n<!-- end -->\nb\n<!-- bench http -->\n<!-- end -->\nc\n"
        );
        assert_eq!(replace_section(&with, "speed", "1\n2").unwrap(), with);
        assert_eq!(replace_section(page, "ws", "1"), None);
    }
}
