//! A flood that no store can serve, from many connections, and what it does to limits that it does not ask.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate_servers::{Postgres, Redis, required_env};
use tidegate_testkit::Random;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinSet;

use super::assert_clean_shutdown;
use crate::serve::http::TempFile;
use crate::serve::program::Program;
use crate::serve::resp::command;
use crate::serve::write_file;

/// `local` is the default policy. `open` shows best whether the store counts as broken.
const LIMITS: &str = "
[limits.flooded]
algorithm = \"token_bucket\"
rate = 1000000
period = \"1h\"
on_store_error = \"open\"

[limits.login]
algorithm = \"fixed_window\"
rate = 1
period = \"365d\"

[limits.search]
algorithm = \"fixed_window\"
rate = 1
period = \"365d\"
on_store_error = \"open\"

[limits.honest]
algorithm = \"token_bucket\"
rate = 1000000
period = \"1s\"
";

/// The limits with exhausted keys.
const EXHAUSTED: [&str; 2] = ["login", "search"];

/// How many honest clients there are, and how long each rests between two requests.
const HONEST_CLIENTS: u64 = 8;
const HONEST_PAUSE: Duration = Duration::from_millis(10);

/// A flood: how many connections, and how many commands each sends at once.
#[derive(Clone, Copy)]
struct Flood {
    connections: usize,
    commands: usize,
}

/// A client of the Redis protocol.
struct Client {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Client {
    async fn connect(program: &Program) -> Client {
        let stream = TcpStream::connect(program.resp.expect("a port")).await.expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        let (reader, writer) = stream.into_split();
        Client { reader: BufReader::new(reader), writer }
    }

    /// Asks once, and returns whether the request is allowed, and how much is left.
    async fn ask(&mut self, limit: &str, key: &str) -> Option<(bool, i64)> {
        self.writer.write_all(&command(&["TG.LIMIT", limit, key])).await.expect("sent");
        self.reply().await
    }

    /// Reads one reply; an error is none.
    async fn reply(&mut self) -> Option<(bool, i64)> {
        let first = self.line().await;
        match first.as_str() {
            "*5" => {
                let mut integers = [0; 5];
                for integer in &mut integers {
                    *integer = self.line().await[1..].parse::<i64>().expect("an integer");
                }
                Some((integers[0] == 1, integers[2]))
            }
            error => {
                assert!(error.starts_with('-'), "{error}");
                None
            }
        }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).await.expect("a reply") > 0, "it was closed");
        line.truncate(line.trim_end().len());
        line
    }
}

/// Floods one limit with random keys until it is over.
async fn flood(mut client: Client, commands: usize, seed: u64, over: Arc<AtomicBool>) {
    let mut random = Random::new(seed);
    while !over.load(Ordering::Relaxed) {
        let keys = (0..commands).map(|_| command(&["TG.LIMIT", "flooded", &random.of_bits(60, 60).to_string()]));
        client.writer.write_all(&keys.collect::<Vec<_>>().concat()).await.expect("sent");
        for _ in 0..commands {
            client.reply().await;
        }
    }
}

/// Asks at a modest pace until it is over, and counts the answers of the store.
async fn ask_honestly(mut client: Client, key: u64, over: Arc<AtomicBool>, served: Arc<AtomicU64>) {
    while !over.load(Ordering::Relaxed) {
        if matches!(client.ask("honest", &key.to_string()).await, Some((true, left)) if left > 0) {
            served.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(HONEST_PAUSE).await;
    }
}

/// What exhausted keys and honest clients got.
#[derive(Debug)]
struct Outcome {
    asked: usize,
    admitted: usize,
    /// Answers of the store to honest clients in a second.
    honest: u64,
}

/// Takes the only unit of that many keys of each limit. None of them is denied, so nothing in the program knows that they are exhausted.
async fn exhaust(client: &mut Client, round: usize, keys: usize) {
    for limit in EXHAUSTED {
        for key in 0..keys {
            assert_eq!(client.ask(limit, &format!("{round}-{key}")).await, Some((true, 0)), "{limit}: {key}");
        }
    }
}

/// Asks each exhausted key once while a flood runs.
async fn attack(program: &Program, round: usize, flood_with: Option<Flood>, keys: usize) -> Outcome {
    let mut client = Client::connect(program).await;
    exhaust(&mut client, round, keys).await;
    let (over, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut others = JoinSet::new();
    let Flood { connections, commands } = flood_with.unwrap_or(Flood { connections: 0, commands: 0 });
    for seed in 0..connections as u64 {
        others.spawn(flood(Client::connect(program).await, commands, seed, Arc::clone(&over)));
    }
    for key in 0..HONEST_CLIENTS {
        others.spawn(ask_honestly(Client::connect(program).await, key, Arc::clone(&over), Arc::clone(&served)));
    }
    let started = tokio::time::Instant::now();
    let mut admitted = 0;
    for key in 0..keys {
        for limit in EXHAUSTED {
            let answer = client.ask(limit, &format!("{round}-{key}")).await;
            admitted += usize::from(answer.is_some_and(|(allowed, _)| allowed));
        }
    }
    let millis = started.elapsed().as_millis().max(1) as u64;
    let honest = served.load(Ordering::Relaxed) * 1_000 / millis;
    over.store(true, Ordering::Relaxed);
    others.join_all().await;
    Outcome { asked: keys * EXHAUSTED.len(), admitted, honest }
}

/// Attacks the program on a store, with up to `TIDEGATE_OVERLOADS` times the flood, and asserts that exhausted keys stay denied.
fn assert_limits_hold(name: &str, url: &str, flood: Flood) {
    let most: usize = std::env::var("TIDEGATE_OVERLOADS").map_or(1, |most| most.parse().expect("a number"));
    let keys = if most == 1 { 100 } else { 1_000 };
    let config = write_file(&format!("overload-{name}.toml"), LIMITS);
    let program = Program::start(&["--config", &config, "--store", url, "--http", "off", "--grpc", "off"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let quiet = attack(&program, 0, None, keys).await;
        assert_eq!(quiet.admitted, 0, "{name}: {quiet:?}");
        for times in [1, 2, 4].into_iter().filter(|times| *times <= most) {
            let flood = Flood { connections: flood.connections * times, ..flood };
            let outcome = attack(&program, times, Some(flood), keys).await;
            assert!(outcome.admitted * 1_000 <= outcome.asked, "{name}, {times} times: {outcome:?}");
            // How much honest clients get depends on the machine: only a long run tells.
            let is_fair = most == 1 || outcome.honest * 3 >= quiet.honest;
            assert!(is_fair, "{name}, {times} times: {outcome:?}, without a flood {quiet:?}");
        }
    });
    assert_clean_shutdown(program);
}

#[test]
fn flood_does_not_open_limits_on_redis() {
    let [server, cli] = ["TIDEGATE_REDIS_SERVER", "TIDEGATE_REDIS_CLI"].map(required_env);
    let redis = Redis::start(Path::new(&server), Path::new(&cli), &[]).expect("a server");
    assert_limits_hold("redis", &redis.url(), Flood { connections: 100, commands: 16 });
}

#[test]
fn flood_does_not_open_limits_on_postgres() {
    let programs = PathBuf::from(required_env("TIDEGATE_POSTGRES_PROGRAMS"));
    let postgres = Postgres::start(&programs, &[Postgres::NO_FSYNC]).expect("a server");
    assert_limits_hold("postgres", &postgres.url(), Flood { connections: 50, commands: 1 });
}

#[test]
fn flood_does_not_open_limits_on_sqlite() {
    let file = TempFile::new("");
    assert_limits_hold("sqlite", &format!("sqlite:{}", file.path()), Flood { connections: 200, commands: 16 });
}
