//! `cargo xtask prose`: counts patterns in comments and pages that make readers stop, and fails above an allowance.
//!
//! The allowance is a floor, and no goal: it keeps old patterns from coming back. It only goes down.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cargo::TaskError;
use crate::markdown::{Sentence, sentences};
use crate::sources;

const ALLOWANCE: &str = "xtask/prose.txt";

/// The most words that a sentence may have.
const MAX_WORDS: usize = 30;

struct Pattern {
    name: &'static str,
    advice: &'static str,
    count: fn(&str) -> usize,
}

const PATTERNS: [Pattern; 5] = [
    Pattern {
        name: "what",
        advice: "a sentence that begins with `What` or `Who`: begin with a noun, or with the verb of what it does",
        count: |text| usize::from(begins_with(text, &["What", "Who"])),
    },
    Pattern {
        name: "otherwise",
        advice: "`unless said otherwise`: write `Defaults to`",
        count: |text| text.to_lowercase().matches("unless said otherwise").count(),
    },
    Pattern {
        name: "person",
        advice: "`nobody`, `somebody`, `everybody`, `whoever`: name the client, the caller, the process",
        count: |text| words(text).filter(|word| is_person(word)).count(),
    },
    Pattern {
        name: "same",
        advice: "a sentence that begins with `The same`: say what it is, so that it makes sense alone",
        count: |text| usize::from(begins_with(text, &["The same", "Same"])),
    },
    Pattern {
        name: "long",
        advice: "a sentence of more than 30 words: cut it in two",
        count: |text| usize::from(words(text).count() > MAX_WORDS),
    },
];

fn begins_with(text: &str, openings: &[&str]) -> bool {
    let text = text.trim_start_matches(['"', '(']);
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
    openings.iter().any(|opening| text.strip_prefix(opening).is_some_and(ends))
}

/// The words of a sentence. A code span is one.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter(|word| word.contains(|next: char| next.is_alphanumeric() || next == '`'))
}

fn is_person(word: &str) -> bool {
    let word = word.split(|next: char| !next.is_alphabetic()).find(|part| !part.is_empty()).unwrap_or("");
    ["nobody", "somebody", "everybody", "whoever"].iter().any(|person| word.eq_ignore_ascii_case(person))
}

/// `cargo xtask prose`: the check by itself, the places, or a lower allowance.
pub(crate) fn run(arguments: &[String]) -> Result<(), TaskError> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => check(),
        ["--list"] => list(&PATTERNS.each_ref()),
        ["--list", name] => match PATTERNS.iter().find(|pattern| pattern.name == name) {
            Some(pattern) => list(&[pattern]),
            None => Err(TaskError(format!("there is no pattern {name:?}: expected one of {}", names()))),
        },
        ["--lower"] => lower(),
        _ => Err(TaskError("expected nothing, --list, --list PATTERN or --lower".to_owned())),
    }
}

/// Fails when a pattern is found more often than the allowance says, or less often.
pub(crate) fn check() -> Result<(), TaskError> {
    let sentences = all_sentences()?;
    let found = PATTERNS.map(|pattern| count(&pattern, &sentences));
    compare(&allowance()?, &found)?;
    println!("\n== prose: ok");
    Ok(())
}

/// Compares counts with their allowance, in the order of the patterns.
fn compare(allowed: &[usize; PATTERNS.len()], found: &[usize; PATTERNS.len()]) -> Result<(), TaskError> {
    let (mut above, mut below) = (String::new(), String::new());
    for (pattern, (allowed, found)) in PATTERNS.iter().zip(allowed.iter().zip(found)) {
        let Pattern { name, advice, .. } = pattern;
        if found > allowed {
            above += &format!(
                "\n  {name}: {found}, and {allowed} are allowed. {advice}. See `cargo xtask prose --list {name}`"
            );
        } else if found < allowed {
            below += &format!("\n  {name}: {found}, and {allowed} are allowed");
        }
    }
    if !above.is_empty() {
        return Err(TaskError(format!("prose: more than {ALLOWANCE} allows:{above}")));
    }
    if !below.is_empty() {
        return Err(TaskError(format!(
            "prose: less than {ALLOWANCE} allows. `cargo xtask prose --lower` writes the new counts; commit them:{below}"
        )));
    }
    Ok(())
}

/// Prints where the patterns are.
fn list(patterns: &[&Pattern]) -> Result<(), TaskError> {
    let sentences = all_sentences()?;
    let mut text = String::new();
    for pattern in patterns {
        text += &format!("{}: {}\n", pattern.name, pattern.advice);
        for (path, sentence) in sentences.iter().filter(|(_, sentence)| (pattern.count)(&sentence.text) > 0) {
            text += &format!("  {}:{}: {}\n", path.display(), sentence.line, sentence.text);
        }
        text += &format!("{}: {}\n\n", pattern.name, count(pattern, &sentences));
    }
    // A reader such as `head` may close the pipe early.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// Writes the counts where they are lower than the allowance. It never raises one.
fn lower() -> Result<(), TaskError> {
    let sentences = all_sentences()?;
    let (allowed, found) = (allowance()?, PATTERNS.map(|pattern| count(&pattern, &sentences)));
    let lowest = std::array::from_fn(|index| allowed[index].min(found[index]));
    fs::write(ALLOWANCE, write_allowance(&lowest)).map_err(|error| TaskError(format!("{ALLOWANCE}: {error}")))?;
    compare(&lowest, &found)?;
    println!("{ALLOWANCE} has the new counts");
    Ok(())
}

fn count(pattern: &Pattern, sentences: &[(PathBuf, Sentence)]) -> usize {
    sentences.iter().map(|(_, sentence)| (pattern.count)(&sentence.text)).sum()
}

fn names() -> String {
    PATTERNS.iter().map(|pattern| pattern.name).collect::<Vec<_>>().join(", ")
}

const HEADER: &str = "\
# How often the patterns of `cargo xtask prose` may be found. The counts only go down: `cargo xtask prose --lower` writes them.
";

fn write_allowance(counts: &[usize; PATTERNS.len()]) -> String {
    let lines = PATTERNS.iter().zip(counts).map(|(pattern, count)| format!("{} {count}\n", pattern.name));
    HEADER.to_owned() + &lines.collect::<String>()
}

fn allowance() -> Result<[usize; PATTERNS.len()], TaskError> {
    read_allowance(&sources::read(Path::new(ALLOWANCE))?)
}

fn read_allowance(text: &str) -> Result<[usize; PATTERNS.len()], TaskError> {
    let lines = || text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
    if let Some((unknown, _)) = lines().find(|(name, _)| !PATTERNS.iter().any(|pattern| pattern.name == *name)) {
        return Err(TaskError(format!("{ALLOWANCE}: there is no pattern {unknown:?}: expected {}", names())));
    }
    let mut counts = [0; PATTERNS.len()];
    for (count, pattern) in counts.iter_mut().zip(&PATTERNS) {
        let line = lines().find(|(name, _)| *name == pattern.name);
        let number = line.and_then(|(_, number)| number.trim().parse().ok());
        *count = number.ok_or_else(|| TaskError(format!("{ALLOWANCE}: there is no count of {}", pattern.name)))?;
    }
    Ok(counts)
}

/// The sentences of all comments and pages. The history of changes stays as it was written.
fn all_sentences() -> Result<Vec<(PathBuf, Sentence)>, TaskError> {
    let mut all = Vec::new();
    for path in sources::files(&["md", "rs"])? {
        let text = sources::read(&path)?;
        let found = match path.extension() {
            Some(extension) if extension == "rs" => comment_sentences(&text),
            _ if path == Path::new("CHANGELOG.md") => continue,
            _ => sentences(&text),
        };
        all.extend(found.into_iter().map(|sentence| (path.clone(), sentence)));
    }
    Ok(all)
}

/// The sentences of a program's comments.
fn comment_sentences(source: &str) -> Vec<Sentence> {
    // Lines with the same marker, one below the other, are one comment: its marker, its first line and its text.
    let mut comments: Vec<(&str, usize, String)> = Vec::new();
    let mut previous = None;
    for (line, number) in source.lines().zip(1..) {
        let Some((marker, text)) = comment(line) else {
            previous = None;
            continue;
        };
        match comments.last_mut() {
            Some((last, _, comment)) if previous == Some(marker) && *last == marker => {
                comment.push('\n');
                comment.push_str(text);
            }
            _ => comments.push((marker, number, text.to_owned())),
        }
        // A comment behind code goes on in no other line.
        previous = line.trim_start().starts_with("//").then_some(marker);
    }
    let in_place = |first: usize, sentence: Sentence| Sentence { line: first + sentence.line - 1, ..sentence };
    let found = comments.iter().map(|(_, first, text)| (first, sentences(text)));
    found.flat_map(|(first, found)| found.into_iter().map(move |sentence| in_place(*first, sentence))).collect()
}

/// The marker and the text of the comment in a line, if there is one.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let start = line.trim_start();
    for marker in ["//!", "///", "//"] {
        if let Some(text) = start.strip_prefix(marker) {
            return Some((marker, text.strip_prefix(' ').unwrap_or(text)));
        }
    }
    // Within quotes it is no comment.
    let is_code = |(at, _): &(usize, &str)| line[..*at].matches('"').count().is_multiple_of(2);
    let (at, marker) = line.match_indices(" // ").find(is_code)?;
    Some(("//", &line[at + marker.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> [usize; PATTERNS.len()] {
        let sentences: Vec<_> = sentences(text).into_iter().map(|sentence| (PathBuf::new(), sentence)).collect();
        PATTERNS.map(|pattern| count(&pattern, &sentences))
    }

    #[test]
    fn patterns_are_counted() {
        assert_eq!(counts("What it is. Who asks? Whatever, so what. It is what it was."), [2, 0, 0, 0, 0]);
        assert_eq!(counts("Five, unless said\notherwise."), [0, 1, 0, 0, 0]);
        assert_eq!(counts("Nobody's, (whoever) and everybody. A `nobody`."), [0, 0, 3, 0, 0]);
        assert_eq!(counts("The same, later. All the same. Same here."), [0, 0, 0, 2, 0]);
        assert_eq!(counts(&"a ".repeat(30)), [0; 5]);
        assert_eq!(counts(&"a ".repeat(31)), [0, 0, 0, 0, 1]);
        assert_eq!(counts("```\nWhat nobody\n```\nHe said so."), [0; 5]);
    }

    #[test]
    fn comments_are_read() {
        let source = "//! A\n//! b. C.\n\n/// D.\nlet x = \"a // What\"; // E\n// F\n/// ```\n/// What\n/// ```\n";
        let found: Vec<_> = comment_sentences(source).into_iter().map(|found| (found.line, found.text)).collect();
        let expected = [(1, "A b."), (2, "C."), (4, "D."), (5, "E"), (6, "F")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn allowance_only_goes_down() {
        assert!(compare(&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5]).is_ok());
        let above = compare(&[1, 2, 3, 4, 5], &[2, 2, 3, 4, 4]).unwrap_err().0;
        assert!(above.contains("what: 2, and 1 are allowed") && above.contains("--list what"), "{above}");
        let below = compare(&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 4]).unwrap_err().0;
        assert!(below.contains("long: 4, and 5 are allowed") && below.contains("--lower"), "{below}");
    }

    #[test]
    fn allowance_is_read_as_written() {
        let counts = [1, 20, 3, 0, 500];
        assert_eq!(read_allowance(&write_allowance(&counts)).unwrap(), counts);
        assert!(read_allowance("what 1\n").unwrap_err().0.contains("no count of otherwise"));
        assert!(read_allowance("wat 1\n").unwrap_err().0.contains("no pattern \"wat\""));
    }
}
