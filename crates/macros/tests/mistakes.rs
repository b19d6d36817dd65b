//! Compile errors of wrong `#[limit]` attributes: their messages and positions.

/// One test, because it builds what all of its cases need once.
#[test]
fn mistakes_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
