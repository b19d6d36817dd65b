//! Connections end to end, without a socket and on a manual clock.

mod batches;
mod commands;
mod random;
mod timeouts;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate::config::envoy::Domains;
use tidegate::config::{Config, Syntax};
use tidegate::resilience::BreakerState;
use tidegate::{ManualClock, MemoryStore, Store, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::{BearerToken, RespDoor, connection};
use crate::app::App;
use crate::app::config::ActiveConfig;
use crate::app::store::AppStore;
use crate::net::buffer_budget::BufferBudget;
use crate::net::shutdown::{Shutdown, ShutdownTrigger};

const CONFIG: &str = r#"
[limits.api]
algorithm = "token_bucket"
rate = 10
period = "1s"
capacity = 20

[limits.login]
algorithm = "fixed_window"
rate = 1
period = "1m"
on_store_error = "closed"

[limits.trial]
algorithm = "sliding_log"
rate = 1
period = "1m"
shadow = true

[defaults]
deny = ["mallory"]
"#;

const TOKEN: &str = "0123456789abcdef";

/// A server without a port.
struct TestServer {
    door: Arc<RespDoor>,
    clock: ManualClock,
    ending: ShutdownTrigger,
    shutdown: Shutdown,
    buffers: Arc<BufferBudget>,
}

impl TestServer {
    fn new() -> Self {
        TestServer::start_on(|store| store, None)
    }

    fn with_token() -> Self {
        TestServer::start_on(|store| store, Some(BearerToken::parse(TOKEN).unwrap()))
    }

    /// A server on the store that `make` makes of a memory store.
    fn start_on<S: Store + 'static>(make: impl FnOnce(Arc<MemoryStore>) -> S, token: Option<BearerToken>) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let memory = Arc::new(MemoryStore::builder().max_keys(1_000).clock(clock.clone()).build());
        let config = Config::parse(CONFIG, Syntax::Toml, "test.toml").expect("a config");
        let config = ActiveConfig::new(config, Domains::default(), Vec::new(), Vec::new(), false);
        let breaker = Arc::new(|| BreakerState::Closed);
        let store = AppStore::External { name: "test", store: Arc::new(make(memory)), breaker, calls: Arc::default() };
        let app = Arc::new(App::new(store, config, false).expect("an app"));
        let (ending, shutdown) = ShutdownTrigger::new();
        let buffers = BufferBudget::new(usize::MAX);
        TestServer { door: Arc::new(RespDoor::new(app, token)), clock, ending, shutdown, buffers }
    }

    /// Connects a client, with buffers of `capacity` bytes between it and the server.
    fn connect(&self, capacity: usize) -> (DuplexStream, JoinHandle<()>) {
        let (client, server) = duplex(capacity);
        let peer = SocketAddr::from(([192, 0, 2, 1], 4711));
        let (door, shutdown, buffers) = (Arc::clone(&self.door), self.shutdown.clone(), Arc::clone(&self.buffers));
        let serving = tokio::spawn(async move {
            let open = buffers.connect(0).expect("room");
            connection::serve(server, peer, Arc::clone(open.account()), door, shutdown).await;
        });
        (client, serving)
    }

    /// Sends commands, closes the sending side, and returns all replies.
    async fn replies(&self, sent: impl AsRef<[u8]>) -> String {
        String::from_utf8_lossy(&self.reply_bytes(sent).await).into_owned()
    }

    async fn reply_bytes(&self, sent: impl AsRef<[u8]>) -> Vec<u8> {
        let (mut client, config) = self.connect(1 << 20);
        client.write_all(sent.as_ref()).await.expect("sent");
        client.shutdown().await.expect("half closed");
        let mut found = Vec::new();
        client.read_to_end(&mut found).await.expect("an orderly end");
        config.await.expect("it ends well");
        found
    }
}

/// Reads until the other end closes.
async fn read_to_end(client: &mut DuplexStream) -> String {
    let mut found = Vec::new();
    client.read_to_end(&mut found).await.expect("an orderly end");
    String::from_utf8_lossy(&found).into_owned()
}

/// Reads as many bytes as expected, and compares them.
async fn expect(client: &mut DuplexStream, expected: &str) {
    let mut found = vec![0; expected.len()];
    client.read_exact(&mut found).await.unwrap_or_else(|error| panic!("{error}: expected {expected:?}"));
    assert_eq!(String::from_utf8_lossy(&found), expected);
}

/// A command as programs send it.
fn command(words: &[&[u8]]) -> Vec<u8> {
    let word = |word: &&[u8]| [format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat();
    [format!("*{}\r\n", words.len()).into_bytes(), words.iter().flat_map(word).collect()].concat()
}

/// Five integers as they come.
fn five_integers(integers: [i64; 5]) -> String {
    format!("*5\r\n{}", integers.map(|integer| format!(":{integer}\r\n")).concat())
}

const SECOND: Duration = Duration::from_secs(1);
