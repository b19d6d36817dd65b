//! The link check: every link of a page leads to a file, a heading or another site, and every page is in the book.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::cargo::TaskError;
use crate::markdown::{anchors, links};
use crate::sources::resolve;
use crate::{book, sources};

/// Checks the links and anchors of every page, the book's table of contents, and the paths of pages that other files name.
pub(crate) fn check() -> Result<(), TaskError> {
    let mut pages = HashMap::new();
    for path in sources::files(&["md"])? {
        pages.insert(path.clone(), sources::read(&path)?);
    }
    let mut broken: Vec<String> = pages.iter().flat_map(|(path, text)| broken_links(path, text, &pages)).collect();
    broken.extend(missing_in_summary(&pages));
    for path in sources::files(&["rs", "toml", "yaml", "service", "md"])? {
        // A changelog tells of pages as they were called.
        if path != Path::new("CHANGELOG.md") {
            broken.extend(missing_paths(&path, &sources::read(&path)?, |named| named.exists()));
        }
    }
    broken.sort();
    if !broken.is_empty() {
        return Err(TaskError(format!("links:\n  {}", broken.join("\n  "))));
    }
    println!("\n== links: ok, {} pages", pages.len());
    Ok(())
}

fn broken_links(path: &Path, text: &str, pages: &HashMap<PathBuf, String>) -> Vec<String> {
    let broken = links(text).into_iter().filter_map(|link| {
        let target = &text[link.target];
        let why = check_target(path, target, pages)?;
        Some(format!("{}:{}: {target}: {why}", path.display(), link.line))
    });
    broken.collect()
}

/// Returns what is wrong with the target of a link.
fn check_target(page: &Path, target: &str, pages: &HashMap<PathBuf, String>) -> Option<&'static str> {
    // Another site, or an item of the documentation, which rustdoc checks.
    if target.contains("://") || target.contains("::") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let named = if path.is_empty() { page.to_owned() } else { resolve(page, path) };
    if !pages.contains_key(&named) && !named.exists() {
        return Some("there is no such file");
    }
    let anchor = anchor?;
    let Some(text) = pages.get(&named) else { return Some("only a page has anchors") };
    (!anchors(text).iter().any(|own| own == anchor)).then_some("there is no such heading")
}

/// The pages of the book that its table of contents does not name.
fn missing_in_summary(pages: &HashMap<PathBuf, String>) -> Vec<String> {
    let summary = Path::new(book::SOURCE).join("SUMMARY.md");
    let Some(text) = pages.get(&summary) else { return vec![format!("{}: there is no such file", summary.display())] };
    let named: Vec<_> = links(text).into_iter().map(|link| resolve(&summary, &text[link.target])).collect();
    let own = pages.keys().filter(|path| path.starts_with(book::SOURCE) && **path != summary);
    let missing = own.filter(|path| !named.contains(path));
    missing.map(|path| format!("{}: it is not in {}", path.display(), summary.display())).collect()
}

/// The paths below `docs/` that a text names and that do not exist.
fn missing_paths(path: &Path, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let is_part = |next: char| next.is_ascii_alphanumeric() || "/-_.".contains(next);
    let mut missing = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        for (at, _) in line.match_indices("docs/") {
            let named = &line[at..];
            let named = named[..named.find(|next| !is_part(next)).unwrap_or(named.len())].trim_end_matches('.');
            let starts = !line[..at].ends_with(is_part) || line[..at].ends_with("../");
            let is_file = [".md", ".svg", ".png"].iter().any(|extension| named.ends_with(extension));
            if starts && is_file && !exists(Path::new(named)) {
                missing.push(format!("{}:{number}: {named}: there is no such file", path.display()));
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        // Tests run in the folder of this crate.
        let page = Path::new("src/page.md");
        let text = "# A heading\n[a](links.rs) [b](#a-heading) [c](https://c.example/#d) [d](lost.rs) [e](#lost) [f](links.rs#g)";
        let pages = HashMap::from([(page.to_owned(), text.to_owned())]);
        let found = broken_links(page, text, &pages);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("src/page.md:2: lost.rs: "), "{found:?}");
        assert!(found[1].starts_with("src/page.md:2: #lost: "), "{found:?}");
        assert!(found[2].starts_with("src/page.md:2: links.rs#g: "), "{found:?}");
    }

    #[test]
    fn broken_anchor_of_another_page_is_found() {
        let (from, to) = (Path::new("src/from.md"), Path::new("src/links.rs"));
        let pages = HashMap::from([(to.to_owned(), "## There".to_owned())]);
        assert_eq!(check_target(from, "links.rs#there", &pages), None);
        assert_eq!(check_target(from, "links.rs#here", &pages), Some("there is no such heading"));
    }

    #[test]
    fn paths_that_do_not_exist_are_found() {
        // This file is checked, too: the folder is not written out.
        let text = "see `~/a.md`, ~/b.md.\nhttps://x.example/~/c.md and \"../~/d.svg\" in ~/decisions/0001"
            .replace('~', "docs");
        let found = missing_paths(Path::new("x.rs"), &text, |path| path.ends_with("a.md"));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("x.rs:1: ") && found[0].contains("/b.md: "), "{found:?}");
        assert!(found[1].contains("x.rs:2: ") && found[1].contains("/d.svg: "), "{found:?}");
    }
}
