use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use tidegate_servers::{Redis, signal, variable, wait_until};

use super::on_each_store;

use crate::cli::store::Store;
use crate::cli::{GOOD, api, tidegate};

on_each_store!(after_a_bad_line after_a_reader_that_leaves after_a_signal not_after_a_signal_that_is_ignored);

/// A replay whose trace has not ended, with three keys in the store.
struct Running {
    child: Child,
    stdin: ChildStdin,
}

impl Running {
    fn on(url: &str, held: impl Fn(u32) -> usize) -> Self {
        Running::by(tidegate(), url, held)
    }

    fn by(mut command: Command, url: &str, held: impl Fn(u32) -> usize) -> Self {
        command.args(["simulate", "--config", &api(), "--trace", "-", "--store", url]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for key in ["u1", "u2", "u3", "u1"] {
            writeln!(stdin, "{}", GOOD.replace("u1", key)).unwrap();
        }
        assert!(wait_until(|| held(child.id()) == 3), "its keys are not in the store while it runs");
        Running { child, stdin }
    }

    /// Its exit code, standard output and standard error, once it has ended.
    fn end(self) -> (i32, String, String) {
        drop(self.stdin);
        let output = self.child.wait_with_output().unwrap();
        let [printed, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code().expect("an exit code"), printed, said)
    }
}

fn after_a_bad_line(store: &Store) {
    let mut running = Running::on(&store.url, |id| store.held(id));
    let id = running.child.id();
    running.stdin.write_all(b"x\n").unwrap();
    let (code, printed, said) = running.end();
    assert_eq!((code, printed.lines().count()), (1, 4));
    assert!(said.starts_with("stdin:5: not a JSON object"), "{said}");
    assert_eq!(store.held(id), 0);
}

/// As `tidegate simulate ... | head -n 1` does.
fn after_a_reader_that_leaves(store: &Store) {
    let mut running = Running::on(&store.url, |id| store.held(id));
    let id = running.child.id();
    drop(running.child.stdout.take());
    // Enough to fill the output buffer.
    let lines = format!("{}\n", GOOD.replace("limit\",\"limit", "check\",\"limit")).repeat(1_000);
    let _ = running.stdin.write_all(lines.as_bytes());
    let (code, _, said) = running.end();
    assert_eq!((code, said.as_str()), (0, ""));
    assert_eq!(store.held(id), 0);
}

fn after_a_signal(store: &Store) {
    for (signal, expected) in [("HUP", 129), ("INT", 130), ("QUIT", 131), ("TERM", 143)] {
        // The test runner may ignore some signals, which its children inherit.
        let mut heeding = Command::new("env");
        heeding.arg("--default-signal").arg(tidegate().get_program());
        let mut running = Running::by(heeding, &store.url, |id| store.held(id));
        let id = running.child.id();
        send(signal, id);
        // The trace has not ended.
        let code = running.child.wait().unwrap().code();
        let (_, _, said) = running.end();
        assert_eq!(code, Some(expected), "{said}");
        assert_eq!(said, "stopped; keys used in the store, and removed again: 3\n");
        assert_eq!(store.held(id), 0);
    }
}

/// As when the terminal is closed that it was started in.
fn not_after_a_signal_that_is_ignored(store: &Store) {
    let mut nohup = Command::new("nohup");
    nohup.arg(tidegate().get_program());
    let mut running = Running::by(nohup, &store.url, |id| store.held(id));
    let id = running.child.id();
    send("HUP", id);
    writeln!(running.stdin, "{GOOD}").unwrap();
    let (code, printed, said) = running.end();
    assert_eq!((code, printed.lines().count()), (0, 5), "{said}");
    assert_eq!(store.held(id), 0);
}

fn send(name: &str, id: u32) {
    assert!(signal([(name, id)]), "it is gone");
}

/// A Redis of this test's own, to break, and a replay on it.
fn own_redis() -> (Redis, Running) {
    let (server, cli) = (variable("TIDEGATE_REDIS_SERVER"), variable("TIDEGATE_REDIS_CLI"));
    let redis = Redis::start(Path::new(&server), Path::new(&cli), &[]).unwrap();
    let running = Running::on(&redis.url(), |_| redis.cli(&["DBSIZE"]).parse().unwrap());
    (redis, running)
}

fn assert_told(said: &str, id: u32, url: &str, line: &str) {
    let (first, rest) = said.split_once('\n').expect("two things are told");
    assert!(first.starts_with(line), "{said}");
    let prefix = format!("{url}: up to 3 keys under simulate-{id}-");
    assert!(rest.starts_with(&prefix) && rest.contains("could not be removed"), "{said}");
    assert!(rest.contains(&format!("--scan --pattern 'simulate-{id}-")), "{said}");
}

#[test]
fn a_lost_store_is_reported_with_the_keys_left_behind() {
    let (mut redis, mut running) = own_redis();
    let id = running.child.id();
    redis.kill();
    writeln!(running.stdin, "{GOOD}").unwrap();
    let (code, printed, said) = running.end();
    assert_eq!((code, printed.lines().count()), (1, 4));
    assert_told(&said, id, &redis.url(), "stdin:5: store unavailable: redis: ");
}

#[test]
fn a_silent_store_times_out() {
    let (redis, mut running) = own_redis();
    let id = running.child.id();
    redis.stop_answering();
    writeln!(running.stdin, "{GOOD}").unwrap();
    let (code, printed, said) = running.end();
    assert_eq!((code, printed.lines().count()), (1, 4));
    assert_told(&said, id, &redis.url(), "stdin:5: store timed out: no answer within 10 seconds");
}
