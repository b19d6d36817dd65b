//! The configs and commands that the docs and `deploy/` show.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use tidegate_server::Cli;

use crate::cli::run;

/// Returns the path of a file of the repository.
fn repository_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read_text(path: &str) -> String {
    fs::read_to_string(repository_path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the pages in a folder and in those below it, sorted.
fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    let pages = entries.into_iter().flat_map(|path| if path.is_dir() { pages_below(&path) } else { vec![path] });
    pages.filter(|page| page.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Returns every code block of a language in the docs.
fn code_blocks(language: &str) -> Vec<String> {
    let pages = pages_below(&repository_path("docs"));
    let pages =
        pages.into_iter().chain([repository_path("README.md")]).map(|page| fs::read_to_string(page).expect("text"));
    // An opening fence has a language, and a closing one has none.
    let fenced = |page: String| page.split("\n```").map(str::to_owned).collect::<Vec<_>>();
    let code = |part: String| Some(part.strip_prefix(language)?.strip_prefix('\n')?.to_owned());
    pages.flat_map(fenced).filter_map(code).collect()
}

/// Asserts that these words are a valid command line.
fn assert_parses<'a>(words: impl IntoIterator<Item = &'a str>) {
    let words: Vec<&str> = words.into_iter().collect();
    assert!(Cli::try_parse_from(&words).is_ok_and(|cli| cli.command.is_some()), "{words:?}");
}

#[test]
fn every_config_in_the_docs_is_valid() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documented");
    fs::create_dir_all(&folder).expect("a folder");
    let rules = code_blocks("yaml").into_iter().filter(|text| text.starts_with("domain:")).map(|text| (text, "yaml"));
    let begins =
        |line: &str| ["[limits.", "[defaults]", "[envoy]", "[http]"].iter().any(|table| line.starts_with(table));
    let configs = code_blocks("toml").into_iter().filter(|text| text.lines().any(begins)).map(|text| (text, "toml"));
    let mut count = 0;
    for (number, (mut text, extension)) in rules.chain(configs).enumerate() {
        // The first are rules, with the file name that configs use.
        let name = if number == 0 { "ratelimit".to_owned() } else { number.to_string() };
        let file = folder.join(name).with_extension(extension);
        if !["domain:", "[limits.", "[envoy]"].iter().any(|what| text.contains(what)) {
            text += "\n[limits.any]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1s\"\n";
        }
        fs::write(&file, &text).expect("written");
        let ran = run(&["check", file.to_str().expect("text")]);
        assert_eq!(ran.code, 0, "{}\n{text}", ran.stderr);
        count += 1;
    }
    assert!(count >= 9, "{count} are found");
}

#[test]
fn every_command_in_the_docs_is_accepted() {
    let lines = code_blocks("sh").join("\n").replace("\\\n", " ");
    let commands =
        lines.lines().filter_map(|line| line.split(" #").next()).map(|line| line.trim_end_matches([' ', '&']));
    let known = |line: &&str| line.starts_with("tidegate ") && (cfg!(feature = "otlp") || !line.contains("--otlp"));
    let commands: Vec<_> = commands.filter(known).collect();
    assert!(commands.len() >= 9, "{commands:?}");
    for command in commands {
        assert_parses(command.split_whitespace());
    }
}

#[test]
fn every_config_in_deploy_is_valid() {
    let config = repository_path("deploy/config/limits.toml");
    let ran = run(&["check", config.to_str().expect("text")]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);

    let service = read_text("deploy/tidegate.service");
    let start = service.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    assert_parses(start.split_whitespace());

    let image = read_text("deploy/Dockerfile");
    let entry = image.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).expect("a command");
    let entry: Vec<String> = serde_json::from_str(entry).expect("words");
    let compose = read_text("deploy/compose.yaml");
    let more: Vec<_> = compose.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
    let more = more.into_iter().filter(|word| word.starts_with("--"));
    assert_parses(entry.iter().map(String::as_str).chain(more));
}
