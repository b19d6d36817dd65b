//! Several files, and which files are of this kind.

use std::path::PathBuf;

use super::told;
use crate::config::envoy::{Domains, is_config};
use crate::config::{Config, Syntax};

const RULE: &str = "descriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 1}}\n";

/// A folder with these files, which is gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
        let folder = std::env::temp_dir().join(format!("tidegate-envoy-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        Folder(folder)
    }

    fn read(&self, names: &[&str]) -> Result<Domains, String> {
        Domains::from_paths(names.iter().map(|name| self.0.join(name)))
            .map_err(|errors| errors.to_string().replace(&format!("{}/", self.0.display()), ""))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn several_files_are_several_domains() {
    let (a, b) = (format!("domain: a\n{RULE}"), format!("domain: a.k\n{RULE}"));
    let folder = Folder::new("several", &[("a.yaml", a.as_bytes()), ("b.yaml", b.as_bytes())]);
    let domains = folder.read(&["a.yaml", "b.yaml"]).unwrap();
    assert_eq!(told(&domains.find("a", &[("k", "v")])), "a.k v");
    assert_eq!(told(&domains.find("a.k", &[("k", "v")])), "a.k.k v");
    let names: Vec<_> = domains.limits().map(|(name, _)| name).collect();
    assert_eq!(names, ["a.(override)", "a.k", "a.k.(override)", "a.k.k"]);
    assert_eq!(folder.read(&[]).unwrap(), Domains::default());
}

#[test]
fn each_file_is_told_what_is_wrong_with_it() {
    let files: [(&str, &[u8]); 5] = [
        ("a.yaml", b"# ours\ndomain: a\n"),
        ("b.yaml", b"domain: a\ndescriptors: 5\n"),
        ("c.yaml", b"domain: b\noops: 1\n"),
        ("d.yaml", b"domain: b\n"),
        ("e.yaml", b"domain: caf\xe9\n"),
    ];
    let folder = Folder::new("wrong", &files);
    let told = folder.read(&["a.yaml", "b.yaml", "c.yaml", "none.yaml", "d.yaml", "e.yaml"]).unwrap_err();
    let told: Vec<_> = told.lines().map(|line| line.replace(&format!("{}/", folder.0.display()), "")).collect();
    assert_eq!(
        told[0],
        "b.yaml:1:9: domain: the domain \"a\" is there twice, first in a.yaml:2: expected each domain once"
    );
    assert_eq!(told[1], "b.yaml:2:14: descriptors: found 5, expected a list of descriptors, such as [{key: path}]");
    assert_eq!(told[2], "c.yaml:2:1: oops: unknown field, expected one of domain, descriptors");
    assert!(told[3].starts_with("none.yaml: cannot be read: "), "{}", told[3]);
    assert_eq!(
        told[4],
        "d.yaml:1:9: domain: the domain \"b\" is there twice, first in c.yaml:1: expected each domain once"
    );
    assert_eq!(told[5], "e.yaml:1:12: not a text: expected UTF-8");
    assert_eq!(told.len(), 6);
}

#[test]
fn files_of_this_kind_are_told_from_configs() {
    for text in [
        "domain: d\n",
        "# a comment\n---\ndescriptors: []\ndomain: d\n",
        "descriptors:\n- key: k\n",
        "\u{feff}\"domain\": d\n",
        "{descriptors: [{key: [a]}], domain: d}",
        "x: {y: z}\nl: [1, 2]\na: &a b\nc: *a\ndomain: d\n",
        // Broken, but not before that.
        "domain: d\ndescriptors: [",
    ] {
        assert!(is_config(text), "{text}");
    }
    let toml = "[limits.domain]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1s\"\n";
    let yaml = "limits:\n  domain: {algorithm: sliding_log, rate: 1, period: 1s}\nhttp:\n";
    assert!(Config::parse(toml, Syntax::Toml, "t").is_ok() && Config::parse(yaml, Syntax::Yaml, "t").is_ok());
    for text in [
        toml,
        yaml,
        "",
        "domain",
        "- domain: d\n",
        "limits: domain\n",
        "a: [b, domain]\n",
        "? domain: d\n: x\n",
        "a: 1\n---\ndomain: d\n",
        "domain = 'd'\n",
        "\"domain",
        "}{",
    ] {
        assert!(!is_config(text), "{text}");
    }
    assert!(!is_config(&"[".repeat(50_000)) && !is_config(&"{a: ".repeat(50_000)));
}
