//! What the tests of single adapters use beside the suite.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

use tidegate::http::Gate;
use tidegate::{Limiter, ManualClock, MemoryStore, Quota, Timestamp, minutes};

/// A gate with a limit of so many a minute for each client, whose time stands still.
pub(crate) fn gate(name: &str, rate: u64) -> Gate {
    Gate::new((&limiter(name, rate), name))
}

/// The limiter of such a gate.
pub(crate) fn limiter(name: &str, rate: u64) -> Limiter {
    let store = MemoryStore::builder().clock(ManualClock::new(Timestamp::from_millis(1_800_000_000_000))).build();
    Limiter::builder().store(store).limit(name, Quota::fixed_window(rate, minutes(1)).unwrap()).build().unwrap()
}

/// Serves on a thread that is left to itself, and says where.
pub(crate) fn start(serve: impl FnOnce(mpsc::Sender<SocketAddr>) + Send + 'static) -> SocketAddr {
    let (told, address) = mpsc::channel();
    thread::spawn(move || serve(told));
    address.recv().unwrap()
}

/// The status, the header `ratelimit` and the body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    let response = reqwest::get(format!("http://{address}{path}")).await.unwrap();
    let told = response.headers().get_all("ratelimit").iter().map(|value| value.to_str().unwrap());
    let (status, told) = (response.status().as_u16(), told.collect::<Vec<_>>().join(", "));
    (status, told, response.text().await.unwrap())
}
