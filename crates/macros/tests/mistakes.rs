//! Compile errors of wrong `#[limit]` attributes: their messages and positions.

/// A single test, so that the shared dependencies of its cases are built once.
#[test]
fn mistakes_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
