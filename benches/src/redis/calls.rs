//! Calls of one script, and their cost as the Redis server reports it.

use redis::{Cmd, Connection, Pipeline, Value};

use super::arguments;
use crate::server_load::{KEYS, key_text, random_key};
use crate::workload::Random;

/// The calls in one round, sent in batches so that the server does not wait for the client.
pub(super) const CALLS: usize = 20_000;
const PIPELINE_LEN: usize = 200;

/// The keys of the calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeySet {
    /// Random keys that the server knows.
    Known,
    /// New keys, each used once.
    New,
}

/// One script, called with one key at a time.
pub(super) struct ScriptCalls<'a> {
    call: &'a dyn Fn(&str) -> Cmd,
    keys: KeySet,
    rounds: Vec<Pipeline>,
    is_allowed: fn(&Value) -> bool,
}

impl<'a> ScriptCalls<'a> {
    pub(super) fn new(call: &'a dyn Fn(&str) -> Cmd, keys: KeySet, is_allowed: fn(&Value) -> bool) -> Self {
        let mut random = Random(1);
        let texts: Vec<String> = match keys {
            KeySet::Known => (0..CALLS).map(|_| random_key(&mut random)).collect(),
            KeySet::New => (0..KEYS).map(key_text).collect(),
        };
        let rounds = texts.chunks(PIPELINE_LEN).map(|keys| pipeline(keys.iter().map(|key| call(key)))).collect();
        ScriptCalls { call, keys, rounds, is_allowed }
    }

    /// Calls the script once for every key, or deletes all keys.
    fn prepare(&self, connection: &mut Connection) {
        let keys = pipeline((0..KEYS).map(|number| {
            let call = (self.call)(&key_text(number));
            match self.keys {
                KeySet::Known => call,
                KeySet::New => redis::cmd("DEL").arg(key_of(&call)).to_owned(),
            }
        }));
        let _: Vec<Value> = keys.query(connection).expect("the server answers");
    }

    /// Returns the microseconds for a call.
    pub(super) fn round(&self, connection: &mut Connection, allowed: bool) -> f64 {
        self.prepare(connection);
        let () = redis::cmd("CONFIG").arg("RESETSTAT").query(connection).expect("the server answers");
        for round in &self.rounds {
            let answers: Vec<Value> = round.query(connection).expect("the server answers");
            // A script with an unexpected answer measures something else.
            assert!(answers.iter().all(|answer| (self.is_allowed)(answer) == allowed), "{:?}", answers[0]);
        }
        let stats: String = redis::cmd("INFO").arg("commandstats").query(connection).expect("the server answers");
        let number = |name: &str| {
            let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).expect("scripts ran");
            let value = line.split(',').find_map(|pair| pair.strip_prefix(name)).expect("as Redis has it");
            value.parse::<f64>().expect("a number")
        };
        let calls = self.rounds.iter().map(Pipeline::len).sum::<usize>() as f64;
        assert_eq!(number("calls="), calls, "another client runs scripts on this server");
        number("usec=") / calls
    }

    /// Returns the mean size of a key that was just written, in bytes.
    pub(super) fn memory(&self, connection: &mut Connection) -> f64 {
        let bytes = (0..KEYS).map(|number| {
            let call = (self.call)(&key_text(number));
            let mut both = redis::pipe();
            let key = key_of(&call);
            both.add_command(call).ignore().cmd("MEMORY").arg("USAGE").arg(key);
            let (bytes,): (u64,) = both.query(connection).expect("the server answers");
            bytes
        });
        bytes.sum::<u64>() as f64 / KEYS as f64
    }
}

/// Returns the key of a script call.
fn key_of(call: &Cmd) -> Vec<u8> {
    // EVALSHA, the hash, 1, and the key.
    arguments(call).swap_remove(3)
}

fn pipeline(commands: impl Iterator<Item = Cmd>) -> Pipeline {
    let mut pipeline = redis::pipe();
    commands.for_each(|command| {
        pipeline.add_command(command);
    });
    pipeline
}
