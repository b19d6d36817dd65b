//! What is wrong with an attribute is said when it is compiled, where it is wrong.

/// One test, because it builds what all of its cases need once.
#[test]
fn mistakes_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
