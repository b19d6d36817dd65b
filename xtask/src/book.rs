//! `cargo xtask book`: the book, built and served by mdBook.
//!
//! mdBook knows only files below its source. So the source is copied to `target/book`, together with the decisions and the pictures
//! that other programs draw, and links are changed to where their targets are in the book. Links to files that are not in the book
//! become their paths.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{TaskError, step};
use crate::markdown::links;
use crate::servers::crates;
use crate::sources::{self, resolve};

/// The folder of the book's pages.
pub(crate) const SOURCE: &str = "docs/book/src";

/// The other folders that are in the book, under their names.
const FOLDERS: [&str; 3] = ["decisions", "images", "pictures"];

/// The copy that mdBook builds.
const COPY: &str = "target/book";

const MDBOOK: &str = "0.5.4";

/// `cargo xtask book`: builds the book, and serves it on request.
pub(crate) fn run(arguments: &[String]) -> Result<(), TaskError> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => build(),
        ["--serve"] => serve("3000"),
        ["--serve", port] => serve(port),
        _ => Err(TaskError("expected nothing, --serve or --serve PORT".to_owned())),
    }
}

/// Builds the book, as a folder of HTML.
pub(crate) fn build() -> Result<(), TaskError> {
    copy_book()?;
    step("book", Command::new(mdbook()?).args(["build", COPY]))?;
    println!("The book is in {COPY}/html/index.html.");
    Ok(())
}

/// Serves the book until it is stopped. A copy made meanwhile, by `cargo xtask book`, is shown at once.
fn serve(port: &str) -> Result<(), TaskError> {
    copy_book()?;
    step("book", Command::new(mdbook()?).args(["serve", COPY, "--port", port]))
}

fn mdbook() -> Result<PathBuf, TaskError> {
    Ok(crates::install("mdbook", MDBOOK, "dev")?.join("mdbook"))
}

/// Copies the book, with links that lead to where their targets are in the copy.
fn copy_book() -> Result<(), TaskError> {
    let failed = |path: &Path, error| TaskError(format!("{}: {error}", path.display()));
    // Pages that are gone must not stay in the copy. The folder itself stays, because mdBook may be watching it.
    let copy = Path::new(COPY).join("src");
    if copy.exists() {
        fs::remove_dir_all(&copy).map_err(|error| failed(&copy, error))?;
    }
    let mut files = vec![(PathBuf::from("docs/book/book.toml"), Path::new(COPY).join("book.toml"))];
    for folder in [SOURCE].map(PathBuf::from).into_iter().chain(FOLDERS.map(|name| Path::new("docs").join(name))) {
        for path in sources::files_below(&folder)? {
            let place =
                place_in_book(&path).ok_or_else(|| TaskError(format!("{} is not in the book", path.display())))?;
            files.push((path, copy.join(place)));
        }
    }
    let records = files.iter().filter(|(path, _)| path.starts_with("docs/decisions")).map(|(path, _)| path);
    let records = records.filter(|path| !path.ends_with("README.md"));
    let records =
        records.map(|path| Ok((path.clone(), title(&sources::read(path)?)))).collect::<Result<Vec<_>, TaskError>>()?;
    for (from, to) in files {
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        }
        if from.extension().is_some_and(|extension| extension == "md") {
            let mut text = move_links(&from, &sources::read(&from)?);
            if from.ends_with("SUMMARY.md") {
                text = with_records(&text, &records);
            }
            fs::write(&to, text).map_err(|error| failed(&to, error))?;
        } else {
            fs::copy(&from, &to).map_err(|error| failed(&from, error))?;
        }
    }
    Ok(())
}

/// The place of a file of the repository in the book's source, if it is there.
fn place_in_book(path: &Path) -> Option<PathBuf> {
    let own = path.strip_prefix(SOURCE).ok();
    let other = || path.strip_prefix("docs").ok().filter(|rest| FOLDERS.iter().any(|folder| rest.starts_with(folder)));
    own.or_else(other).map(Path::to_owned)
}

/// The text of a page with each link as it is in the book. A link to a file outside of the book becomes its label and its path.
fn move_links(page: &Path, text: &str) -> String {
    let Some(own) = place_in_book(page) else { return text.to_owned() };
    let mut moved = text.to_owned();
    // From the last to the first, so that the places of the others stay right.
    for link in links(text).into_iter().rev() {
        let target = &text[link.target.clone()];
        // A chapter without a page has no target.
        if target.is_empty() || target.contains("://") || target.starts_with('#') || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').map_or((target, ""), |(path, _)| (path, &target[path.len()..]));
        let named = resolve(page, path);
        match place_in_book(&named) {
            Some(place) => moved.replace_range(link.target, &format!("{}{anchor}", relative(&own, &place))),
            None => {
                let label = &text[link.label];
                let shown = named.display().to_string();
                let is_shown = label.trim_matches('`') == shown;
                let label = if is_shown { label.to_owned() } else { format!("{label} (`{shown}` in the repository)") };
                moved.replace_range(link.whole, &label);
            }
        }
    }
    moved
}

/// The relative link from one page of the book to another file of it.
fn relative(from: &Path, to: &Path) -> String {
    let depth = from.components().count() - 1;
    let common = from.components().zip(to.components()).take(depth).take_while(|(a, b)| a == b).count();
    let up = "../".repeat(depth - common);
    let down: Vec<_> = to.components().skip(common).map(|part| part.as_os_str().to_string_lossy()).collect();
    up + &down.join("/")
}

/// The table of contents with the records below their page.
fn with_records(summary: &str, records: &[(PathBuf, String)]) -> String {
    let entries = records
        .iter()
        .filter_map(|(path, title)| Some(format!("  - [{title}](decisions/{})\n", path.file_name()?.to_str()?)));
    let entries: String = entries.collect();
    let add = |line: &str| match line.contains("(decisions/README.md)") {
        true => format!("{line}\n{entries}"),
        false => format!("{line}\n"),
    };
    summary.lines().map(add).collect()
}

/// The title of a page: its first heading.
fn title(text: &str) -> String {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or("Untitled").replace(['[', ']'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_places_in_the_book() {
        let page = Path::new(SOURCE).join("how-to/a.md");
        let text =
            "[b](../reference/b.md#c) [d](e.md) [f](../../../decisions/0001.md) ![g](../../../images/g.png) [h](#i)";
        let moved = "[b](../reference/b.md#c) [d](e.md) [f](../decisions/0001.md) ![g](../images/g.png) [h](#i)";
        assert_eq!(move_links(&page, text), moved);
    }

    #[test]
    fn link_out_of_the_book_becomes_its_path() {
        let page = Path::new(SOURCE).join("a.md");
        let text = "[the guide](../../../SECURITY.md#b) [`LICENSE`](../../../LICENSE) [c](https://c.example)";
        let moved = "the guide (`SECURITY.md` in the repository) `LICENSE` [c](https://c.example)";
        assert_eq!(move_links(&page, text), moved);
    }

    #[test]
    fn records_lead_to_pages() {
        let record = &Path::new("docs/decisions").join("0001.md");
        let text = "[a](../book/src/reference/a.md#b) [c](0002.md)";
        assert_eq!(move_links(record, text), "[a](../reference/a.md#b) [c](0002.md)");
        let summary = "- [Decisions](decisions/README.md)\n- [z](z.md)\n";
        let records = [(record.to_owned(), "One".to_owned())];
        let expected = "- [Decisions](decisions/README.md)\n  - [One](decisions/0001.md)\n- [z](z.md)\n";
        assert_eq!(with_records(summary, &records), expected);
    }
}
