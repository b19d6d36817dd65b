//! Snapshots of the memory store between two runs.

use std::fs::File;
use std::process::Command;

use super::{LIMITS, TempFile, post};
use crate::serve::program::Program;

#[tokio::test]
async fn a_restart_with_a_snapshot_resets_no_key() {
    let (config, state) = (TempFile::new(LIMITS), TempFile::new(""));
    std::fs::remove_file(&state.0).expect("it was there");
    let arguments = ["--config", config.path(), "--snapshot", state.path()];
    for (round, expected) in [(0, "true"), (1, "true"), (2, "false")] {
        let program = Program::start(&arguments);
        let (_, answer) = post(&program, "/v1/limit", r#"{"limit":"two","key":"u"}"#).await;
        assert_eq!(answer["allowed"].to_string(), expected, "{round}");
        assert!(program.stop().0.success());
    }
}

#[test]
fn a_temporary_snapshot_of_another_process_is_left_alone() {
    let state = TempFile::new("");
    std::fs::remove_file(&state.0).expect("it was there");
    let others = [".new-mine", ".new-0000000000000001", ".new-000000000000000f"]
        .map(|ending| TempFile(format!("{}{ending}", state.path()).into()));
    others.iter().for_each(|other| other.write("half"));
    let [_, written, left] = &others;
    let writing = File::open(&written.0).expect("it was written");
    writing.lock().expect("nobody else has it");
    assert!(Program::start(&["--snapshot", state.path()]).stop().0.success());
    others.iter().filter(|other| other.0 != left.0).for_each(|other| {
        assert_eq!(std::fs::read_to_string(&other.0).expect("it is still there"), "half");
    });
    assert!(!left.0.exists(), "nobody writes it any more");
    let name = state.0.file_name().and_then(|name| name.to_str()).expect("text").to_owned();
    let folder = std::fs::read_dir(std::env::temp_dir()).expect("a folder");
    let beside = folder.filter(|file| {
        let found = file.as_ref().expect("a file").file_name();
        found.to_str().is_some_and(|found| found.starts_with(&name))
    });
    assert_eq!(beside.count(), 3, "nothing of its own stays but the snapshot");
}

#[test]
fn a_damaged_snapshot_is_an_error() {
    let state = TempFile::new("not a snapshot");
    let ports = ["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"];
    let ran =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["serve", "--snapshot", state.path()]).args(ports).output();
    let ran = ran.expect("the program");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains(state.path()), "{said}");
    assert_eq!(std::fs::read_to_string(&state.0).expect("it is still there"), "not a snapshot");
}

#[test]
fn a_snapshot_needs_the_memory_store() {
    let ran = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["serve", "--snapshot", "x", "--store", "sqlite:/nowhere/x.db"])
        .output()
        .expect("the program");
    assert_eq!(ran.status.code(), Some(2), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn an_unwritable_snapshot_is_an_error_at_the_start() {
    let ports = ["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"];
    let arguments = ["serve", "--snapshot", "/nonexistent/folder/state"];
    let ran = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(arguments).args(ports).output().expect("the program");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("/nonexistent/folder/state: the snapshot could not be written"), "{said}");
}
