//! The removal of a replay's keys at every kind of end.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use tidegate_servers::{Redis, required_env, signal, wait_until};

use super::on_each_store;

use crate::cli::store::TestStore;
use crate::cli::{VALID_LINE, api_config, tidegate};

on_each_store!(bad_line_leaves_no_keys closed_output_leaves_no_keys end_signal_leaves_no_keys ignored_signal_does_not_stop_the_replay);

/// A replay whose trace has not ended, with three keys in the store.
struct RunningReplay {
    child: Child,
    stdin: ChildStdin,
}

impl RunningReplay {
    fn start(url: &str, count_keys: impl Fn(u32) -> usize) -> Self {
        RunningReplay::start_command(tidegate(), url, count_keys)
    }

    fn start_command(mut command: Command, url: &str, count_keys: impl Fn(u32) -> usize) -> Self {
        command.args(["simulate", "--config", &api_config(), "--trace", "-", "--store", url]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for key in ["u1", "u2", "u3", "u1"] {
            writeln!(stdin, "{}", VALID_LINE.replace("u1", key)).unwrap();
        }
        assert!(wait_until(|| count_keys(child.id()) == 3), "its keys are not in the store while it runs");
        RunningReplay { child, stdin }
    }

    /// Its exit code, standard output and standard error, once it has ended.
    fn finish(self) -> (i32, String, String) {
        drop(self.stdin);
        let output = self.child.wait_with_output().unwrap();
        let [printed, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code().expect("an exit code"), printed, said)
    }
}

fn bad_line_leaves_no_keys(store: &TestStore) {
    let mut running = RunningReplay::start(&store.url, |id| store.count_keys(id));
    let id = running.child.id();
    running.stdin.write_all(b"x\n").unwrap();
    let (code, printed, said) = running.finish();
    assert_eq!((code, printed.lines().count()), (1, 4));
    assert!(said.starts_with("stdin:5: not a JSON object"), "{said}");
    assert_eq!(store.count_keys(id), 0);
}

/// As `tidegate simulate ... | head -n 1` does.
fn closed_output_leaves_no_keys(store: &TestStore) {
    let mut running = RunningReplay::start(&store.url, |id| store.count_keys(id));
    let id = running.child.id();
    drop(running.child.stdout.take());
    // Enough to fill the output buffer.
    let lines = format!("{}\n", VALID_LINE.replace("limit\",\"limit", "check\",\"limit")).repeat(1_000);
    let _ = running.stdin.write_all(lines.as_bytes());
    let (code, _, said) = running.finish();
    assert_eq!((code, said.as_str()), (0, ""));
    assert_eq!(store.count_keys(id), 0);
}

fn end_signal_leaves_no_keys(store: &TestStore) {
    for (signal, expected) in [("HUP", 129), ("INT", 130), ("QUIT", 131), ("TERM", 143)] {
        // The test runner may ignore some signals, which its children inherit.
        let mut heeding = Command::new("env");
        heeding.arg("--default-signal").arg(tidegate().get_program());
        let mut running = RunningReplay::start_command(heeding, &store.url, |id| store.count_keys(id));
        let id = running.child.id();
        send_signal(signal, id);
        // The trace has not ended.
        let code = running.child.wait().unwrap().code();
        let (_, _, said) = running.finish();
        assert_eq!(code, Some(expected), "{said}");
        assert_eq!(said, "stopped; keys used in the store, and removed again: 3\n");
        assert_eq!(store.count_keys(id), 0);
    }
}

/// As when the terminal that started it is closed.
fn ignored_signal_does_not_stop_the_replay(store: &TestStore) {
    let mut nohup = Command::new("nohup");
    nohup.arg(tidegate().get_program());
    let mut running = RunningReplay::start_command(nohup, &store.url, |id| store.count_keys(id));
    let id = running.child.id();
    send_signal("HUP", id);
    writeln!(running.stdin, "{VALID_LINE}").unwrap();
    let (code, printed, said) = running.finish();
    assert_eq!((code, printed.lines().count()), (0, 5), "{said}");
    assert_eq!(store.count_keys(id), 0);
}

fn send_signal(name: &str, id: u32) {
    assert!(signal([(name, id)]), "it is gone");
}

/// A Redis of this test's own, to break, and a replay on it.
fn replay_on_own_redis() -> (Redis, RunningReplay) {
    let (server, cli) = (required_env("TIDEGATE_REDIS_SERVER"), required_env("TIDEGATE_REDIS_CLI"));
    let redis = Redis::start(Path::new(&server), Path::new(&cli), &[]).unwrap();
    let running = RunningReplay::start(&redis.url(), |_| redis.cli(&["DBSIZE"]).parse().unwrap());
    (redis, running)
}

fn assert_leftovers_reported(said: &str, id: u32, url: &str, line: &str) {
    let (first, rest) = said.split_once('\n').expect("two things are told");
    assert!(first.starts_with(line), "{said}");
    let prefix = format!("{url}: up to 3 keys under simulate-{id}-");
    assert!(rest.starts_with(&prefix) && rest.contains("could not be removed"), "{said}");
    assert!(rest.contains(&format!("--scan --pattern 'simulate-{id}-")), "{said}");
}

#[cfg(feature = "_real-servers")]
#[test]
fn a_lost_store_is_reported_with_the_keys_left_behind() {
    let (mut redis, mut running) = replay_on_own_redis();
    let id = running.child.id();
    redis.kill();
    writeln!(running.stdin, "{VALID_LINE}").unwrap();
    let (code, printed, said) = running.finish();
    assert_eq!((code, printed.lines().count()), (1, 4));
    assert_leftovers_reported(&said, id, &redis.url(), "stdin:5: store unavailable: redis: ");
}

#[cfg(feature = "_real-servers")]
#[test]
fn a_silent_store_times_out() {
    let (redis, mut running) = replay_on_own_redis();
    let id = running.child.id();
    redis.pause();
    writeln!(running.stdin, "{VALID_LINE}").unwrap();
    let (code, printed, said) = running.finish();
    assert_eq!((code, printed.lines().count()), (1, 4));
    assert_leftovers_reported(&said, id, &redis.url(), "stdin:5: store timed out: no answer within 10 seconds");
}
