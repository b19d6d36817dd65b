//! The parts of a Markdown text that checks look at: sentences, links and anchors.

use std::ops::Range;

/// A sentence, without markup. A code span in it is one backtick.
#[derive(Debug, PartialEq)]
pub(crate) struct Sentence {
    /// The line it begins in, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A link or a picture.
#[derive(Debug, PartialEq)]
pub(crate) struct Link {
    /// The line its target is in, from 1.
    pub(crate) line: usize,
    /// Its place in the text, with brackets.
    pub(crate) whole: Range<usize>,
    /// The place of its label in the text.
    pub(crate) label: Range<usize>,
    /// The place of its target in the text.
    pub(crate) target: Range<usize>,
}

/// Returns the lines that are text, with their number from 1. Code blocks are left out.
fn text_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<String> = None;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let start = line.trim_start();
        match &fence {
            None if start.starts_with("```") || start.starts_with("~~~") => {
                let mark = start.as_bytes()[0];
                let length = start.bytes().take_while(|byte| *byte == mark).count();
                fence = Some(start[..length].to_owned());
                None
            }
            None => Some((number, line)),
            Some(open) => {
                if start.starts_with(open.as_str()) {
                    fence = None;
                }
                None
            }
        }
    })
}

/// Returns the sentences of a text. Headings, list items and table cells are sentences of their own, whether or not they end with
/// a full stop.
pub(crate) fn sentences(text: &str) -> Vec<Sentence> {
    // A block is what one sentence cannot go beyond: its first line, and its text with the line breaks.
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut previous = None;
    for (number, line) in text_lines(text) {
        let line = line.trim().trim_start_matches('>').trim_start();
        let continues = previous == Some(number - 1);
        previous = None;
        if line.is_empty() || line.starts_with('<') {
        } else if line.starts_with('|') {
            let cells = line.trim_matches('|').split(" | ").map(str::trim);
            blocks.extend(cells.map(|cell| (number, cell.to_owned())));
        } else if line.starts_with('#') {
            blocks.push((number, line.trim_start_matches('#').trim().to_owned()));
        } else {
            previous = Some(number);
            let item = list_item(line);
            match blocks.last_mut() {
                Some((_, block)) if continues && item.is_none() => {
                    block.push('\n');
                    block.push_str(line);
                }
                _ => blocks.push((number, item.unwrap_or(line).to_owned())),
            }
        }
    }
    blocks.into_iter().flat_map(|(line, block)| split_sentences(line, &strip_markup(&block))).collect()
}

/// The text of a list item's first line, without its marker.
fn list_item(line: &str) -> Option<&str> {
    let numbered = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let numbered = (numbered.len() < line.len()).then(|| numbered.strip_prefix(". ")).flatten();
    line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or(numbered)
}

/// The text without emphasis and the targets of links, and with one backtick for each code span.
fn strip_markup(text: &str) -> String {
    let mut stripped = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '`' => {
                let span = code_span(rest);
                stripped.push('`');
                // The number of a line is counted by its breaks.
                stripped.extend(rest[..span].chars().filter(|next| *next == '\n'));
                span
            }
            ']' if rest.starts_with("](") => rest.find(')').map_or(rest.len(), |end| end + 1),
            '[' | ']' | '*' => 1,
            other => {
                stripped.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    stripped
}

/// The length of the code span that `text` begins with, or of its backticks where none closes it.
fn code_span(text: &str) -> usize {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let mut from = ticks;
    while let Some(start) = text[from..].find('`').map(|start| from + start) {
        let length = text[start..].len() - text[start..].trim_start_matches('`').len();
        if length == ticks {
            return start + length;
        }
        from = start + length;
    }
    ticks
}

/// Cuts after a full stop, a question mark or an exclamation mark, where no small letter follows.
fn split_sentences(first_line: usize, text: &str) -> Vec<Sentence> {
    let (mut sentences, mut line, mut rest) = (Vec::new(), first_line, text);
    while !rest.trim().is_empty() {
        let skipped = rest.len() - rest.trim_start().len();
        line += rest[..skipped].matches('\n').count();
        rest = &rest[skipped..];
        let end = rest.char_indices().find_map(|(at, mark)| {
            let after = rest[at + mark.len_utf8()..].trim_start_matches(['"', ')']);
            let begins = after.starts_with(char::is_whitespace)
                && !after.trim_start().starts_with(|next: char| next.is_lowercase());
            (['.', '?', '!'].contains(&mark) && begins).then(|| rest.len() - after.len())
        });
        let sentence = &rest[..end.unwrap_or(rest.len())];
        sentences.push(Sentence { line, text: sentence.split_whitespace().collect::<Vec<_>>().join(" ") });
        line += sentence.matches('\n').count();
        rest = &rest[sentence.len()..];
    }
    sentences
}

/// Returns the links of a text, in their order. Code has none.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut skip_to = 0;
    for (number, line) in text_lines(text) {
        let start = line.as_ptr() as usize - text.as_ptr() as usize;
        if line.trim().is_empty() {
            open.clear();
        }
        for (at, mark) in line.char_indices().map(|(at, mark)| (start + at, mark)) {
            if at < skip_to {
                continue;
            }
            match mark {
                '`' => skip_to = at + code_span(&text[at..]),
                '\\' => skip_to = at + 2,
                '[' => open.push(at),
                ']' => {
                    let Some(begin) = open.pop() else { continue };
                    let Some(length) = text[at..].strip_prefix("](").and_then(|rest| rest.find(')')) else { continue };
                    let target = at + 2..at + 2 + length;
                    let bang = text[..begin].ends_with('!');
                    let whole = begin - usize::from(bang)..target.end + 1;
                    links.push(Link { line: number, whole, label: begin + 1..at, target: target.clone() });
                    skip_to = target.end;
                }
                _ => {}
            }
        }
    }
    links
}

/// Returns the anchors of a text's headings, as GitHub and mdBook make them.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in text_lines(text).filter(|(_, line)| line.starts_with('#')) {
        // The text of a link, without its target.
        let mut heading = line.trim_start_matches('#').trim().to_owned();
        for link in links(&heading.clone()).into_iter().rev() {
            let label = heading[link.label].to_owned();
            heading.replace_range(link.whole, &label);
        }
        let kept = heading.to_lowercase();
        let kept = kept.chars().filter(|next| next.is_alphanumeric() || [' ', '-', '_'].contains(next));
        let anchor: String = kept.map(|next| if next == ' ' { '-' } else { next }).collect();
        let is_taken = |anchors: &[String], name: &str| anchors.iter().any(|taken| taken == name);
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|name| !is_taken(&anchors, name));
        anchors.extend(free);
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        sentences(text).into_iter().map(|sentence| sentence.text).collect()
    }

    #[test]
    fn paragraphs_are_cut_into_sentences() {
        assert_eq!(
            texts("One is\nhere. Two, 0.1 of it!\n\nThree e.g. four"),
            ["One is here.", "Two, 0.1 of it!", "Three e.g. four"]
        );
        let second_line = Sentence { line: 2, text: "B `.".to_owned() };
        assert_eq!(sentences("A.\nB `c`."), [Sentence { line: 1, text: "A.".to_owned() }, second_line]);
    }

    #[test]
    fn headings_items_and_cells_are_sentences() {
        assert_eq!(texts("# A\n- b\n  c\n2. d\n| e | f `g` |"), ["A", "b c", "d", "e", "f `"]);
    }

    #[test]
    fn code_and_targets_are_no_text() {
        assert_eq!(texts("A [`b`](c.md#d) *e*:\n```sh\nWhat\n```\nf"), ["A ` e:", "f"]);
        assert_eq!(texts("A ``b ` c``."), ["A `."]);
    }

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "A `[b](c)` [d\ne](f.md#g) ![h](i.svg)\n```\n[j](k)\n```\n[[l](m)]";
        let found: Vec<_> =
            links(text).into_iter().map(|link| (link.line, &text[link.label], &text[link.target])).collect();
        assert_eq!(found, [(2, "d\ne", "f.md#g"), (2, "h", "i.svg"), (6, "l", "m")]);
        let whole: Vec<_> = links(text).into_iter().map(|link| &text[link.whole]).collect();
        assert_eq!(whole, ["[d\ne](f.md#g)", "![h](i.svg)", "[l](m)"]);
    }

    #[test]
    fn anchors_are_those_of_headings() {
        let text = "# `tidegate serve`: limits\n## A b-c_d?\n## A b-c_d\n```sh\n# no\n```\n### [E](f.md), G";
        assert_eq!(anchors(text), ["tidegate-serve-limits", "a-b-c_d", "a-b-c_d-1", "e-g"]);
    }
}
