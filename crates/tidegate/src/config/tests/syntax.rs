use super::{refused, toml, yaml};

#[test]
fn what_is_not_toml_is_told_where() {
    let cases = [
        ("rate = \nx = 1\n", "t.toml:1:8: string values must be quoted, expected literal string"),
        ("[limits\n", "t.toml:1:8: unclosed table, expected `]`"),
        ("a = \"é\" b", "t.toml:1:9: unexpected key or value, expected newline, `#`"),
        ("a = \"é\"\r\nb = \r\n", "t.toml:2:5: string values must be quoted, expected literal string"),
        ("a = 01", "t.toml:1:5: unexpected leading zero, expected nothing"),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(toml(text)), expected, "{text}");
    }
}

#[test]
fn what_is_not_yaml_is_told_where() {
    let cases = [
        ("a: *b", "t.yaml:1:4: while parsing node, found unknown anchor"),
        ("limits:\r\n  é: 'ü\r\n", "t.yaml:2:6: while scanning a quoted scalar, found unexpected end of stream"),
        ("limits:\n  é: {rate: [}", "t.yaml:2:14: while parsing a node, did not find expected node content"),
        ("a: 1\n---\nb: 2", "t.yaml:3:1: a second document: expected one"),
        ("a: !!int 5", "t.yaml:1:4: a tag: expected the value itself"),
        ("? [a]\n: 5", "t.yaml:1:3: a name that is not a plain text: expected a name"),
        ("a: &a [*a]", "t.yaml:1:8: an alias of what it is in: expected an anchor before it"),
        ("- a\n", "t.yaml:1:1: found a list, expected a table"),
        ("limits: 5\n", "t.yaml:1:9: limits: found 5, expected a table"),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(yaml(text)), expected, "{text}");
    }
}

const LOG: &str = "algorithm = \"sliding_log\"\nrate = 1\nperiod = \"1s\"\n";

#[test]
fn a_name_that_is_there_twice_is_refused() {
    let twice = format!("[limits.a]\n{LOG}[limits.b]\n{LOG}[limits.a]\n{LOG}[limits.c]\n{LOG}rate = 2\n");
    assert_eq!(
        refused(toml(&twice)),
        "t.toml:9:9: `a` is there twice: expected each name once\n\
         t.toml:17:1: `rate` is there twice: expected each name once"
    );
    let log = "{algorithm: sliding_log, rate: 1, period: 1s}";
    let twice = format!("limits:\n  a: {log}\n  b: {log}\n  \"a\": {log}\n  c:\n    rate: 1\n    rate: 2\n");
    let told = refused(yaml(&twice));
    let first = "t.yaml:4:3: limits.a: `a` is there twice, first in line 2: expected each name once\n";
    let second = "t.yaml:7:5: limits.c.rate: `rate` is there twice, first in line 6: expected each name once";
    assert!(told.starts_with(first) && told.ends_with(second), "{told}");
}

#[test]
fn columns_are_characters_and_lines_may_end_in_cr_lf() {
    let text = format!("[limits.\"äöü\"]\r\n{}x = {{ \"ß\" = 1 }}\r\n", LOG.replace('\n', "\r\n"));
    let told = refused(toml(&text));
    assert!(told.starts_with("t.toml:5:1: limits.äöü.x: unknown field, "), "{told}");
    let told = refused(toml("\u{feff}limits.\"ä\" = { rate = 0 } # ä\n"));
    assert!(told.contains("t.toml:1:23: limits.ä.rate: found 0"), "{told}");
    let told = refused(yaml("\u{feff}limits: {\"ä\": {rate: 0}} # ä\r\n"));
    assert!(told.contains("t.yaml:1:22: limits.ä.rate: found 0"), "{told}");
}

#[test]
fn nesting_is_bounded() {
    let nested = [
        "a = ".to_owned() + &"[".repeat(100_000),
        "a = ".to_owned() + &"[".repeat(50) + &"]".repeat(50),
        "a".to_owned() + &".a".repeat(100_000) + " = 1",
        "a".to_owned() + &".a".repeat(50) + " = 1",
        // Small for a file and too deep for a stack, if it were parsed.
        format!("a{} = {{", ".a".repeat(70)).repeat(70),
    ];
    for text in nested {
        refused(toml(&text));
    }
    for text in ["- ".repeat(50_000), "? ".repeat(50_000), "[".repeat(50_000), "{a: ".repeat(50_000)] {
        refused(yaml(&text));
    }
}

#[test]
fn what_is_commented_out_is_not_nested() {
    toml(&format!("{}[limits.a]\n{LOG}", "  # [[tables]] {\n".repeat(50))).unwrap();
    let behind_a_text = format!("a = {{b = \"\"\"\n# \"\"\", c = {}", "{a = ".repeat(20));
    assert_eq!(refused(toml(&behind_a_text)), "t.toml:2:87: nested too deep");
}

#[test]
fn aliases_are_bounded() {
    let laughs: String = (1..9).map(|n| format!("a{n}: &a{n} [{}]\n", format!("*a{},", n - 1).repeat(9))).collect();
    let told = refused(yaml(&format!("a0: &a0 [1]\n{laughs}")));
    assert!(told.ends_with("too many values repeated by aliases"), "{told}");
    // A long text is repeated whole.
    let told = refused(yaml(&format!("a: &a {}\nb: [{}]\n", "x".repeat(64 << 10), "*a,".repeat(1_000))));
    assert!(told.ends_with("too many values repeated by aliases"), "{told}");
    let deep: String = (1..99).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    let told = refused(yaml(&format!("a0: &a0 [1]\n{deep}")));
    assert!(told.ends_with("nested too deep"), "{told}");
}
