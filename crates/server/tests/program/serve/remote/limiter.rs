//! A limiter on the remote store, with the resilience wrappers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::remote::RemoteStore;
use tidegate::resilience::Resilience;
use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Key, Limiter, OnStoreError, Quota, Store, TokioSleeper, days, millis};

use super::{run, store};
use crate::serve::program::Program;

fn limiter(store: impl Store + 'static) -> Limiter {
    let quota = Quota::fixed_window(50, days(30)).expect("a quota");
    Limiter::builder().limit("api", quota).bare_store(store).build().expect("a limiter")
}

#[test]
fn concurrent_tasks_never_exceed_the_quota() {
    let program = Program::start(&["--grpc", "off", "--resp", "off"]);
    let limiter = limiter(store(&program));
    let allowed = run(async {
        let ask = || {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.limit("api", "u1").await.expect("an answer").allowed() })
        };
        let tasks: Vec<_> = (0..200).map(|_| ask()).collect();
        let mut allowed = 0;
        for task in tasks {
            allowed += u32::from(task.await.expect("no panic"));
        }
        allowed
    });
    assert_eq!(allowed, 50);
}

#[test]
fn a_lost_server_is_decided_by_the_failure_policy() {
    let program = Program::start(&["--grpc", "off", "--resp", "off"]);
    let store = Resilience::new(TokioSleeper).timeout(millis(2_000)).build(store(&program));
    let limiter = limiter(store);
    let limit_with = |policy| run(async { limiter.limit("api", "u1").on_store_error(policy).await });
    assert_eq!(limit_with(OnStoreError::Closed).expect("it serves").remaining(), 49);
    drop(program);
    let open = limit_with(OnStoreError::Open).expect("admitted");
    assert_eq!((open.allowed(), open.reason().map(|reason| reason.as_str())), (true, Some("store")));
    let error = limit_with(OnStoreError::Closed).expect_err("nobody there");
    assert!(error.is_retryable(), "{error}");
    assert!(limit_with(OnStoreError::Local).expect("decided here").allowed());
}

#[test]
fn a_wrong_token_is_refused() {
    let token = "0123456789abcdef";
    let program = Program::start_with_env(&["--grpc", "off", "--resp", "off"], &[("TIDEGATE_TOKEN", token)]);
    let url = crate::serve::api_client::url(&program, "");
    let with = |token| limiter(RemoteStore::builder(&url).token(token).build().expect("an address"));
    assert!(run(async { with(token).limit("api", "u1").await }).expect("the token").allowed());
    let error = run(async { with("another-token-16").limit("api", "u1").await }).expect_err("another");
    assert!(error.to_string().contains("401") && error.is_retryable(), "{error}");
}

/// A proxy that passes bytes on counts the calls on the wire.
#[test]
fn a_batch_is_one_request() {
    let program = Program::start(&["--grpc", "off", "--resp", "off"]);
    let (seen, address) = counting_proxy(program.http.expect("a port"));
    let store = RemoteStore::new(&format!("http://{address}")).expect("an address");
    let (scope, quota) = (Scope::new("", "api"), Quota::token_bucket(10, days(30)).expect("a quota"));
    let keys: Vec<_> = (0..900_u64).map(Key::from).collect();
    let ask = |key| Request {
        scope: &scope,
        key,
        quota: &quota,
        op: Op::Limit(Cost::ONE),
        on_store_error: OnStoreError::Closed,
    };
    let requests: Vec<_> = keys.iter().map(ask).collect();
    let answers = run(store.apply_each(&requests));
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|decision| decision.remaining() == 9)));
    assert_eq!((answers.len(), seen.load(Ordering::SeqCst)), (900, 1));
    // A batch that is too large for one call takes several.
    let keys: Vec<_> = (0..2_500).map(|number| Key::from(format!("{number:0>900}"))).collect();
    let requests: Vec<_> = keys.iter().map(ask).collect();
    let answers = run(store.apply_each(&requests));
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|decision| decision.remaining() == 9)));
    assert!((4..=8).contains(&seen.load(Ordering::SeqCst)), "{seen:?}");
    // A joint call cannot be split, and fails before it is sent.
    let before = seen.load(Ordering::SeqCst);
    let error = run(store.apply_all(&requests)).expect_err("too much");
    assert!(!error.is_retryable() && error.to_string().contains("of which the server takes"), "{error}");
    assert_eq!(seen.load(Ordering::SeqCst), before);
}

/// Passes everything on to the server, and counts the requests in it.
fn counting_proxy(server: std::net::SocketAddr) -> (Arc<AtomicUsize>, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = seen.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let mut up = std::net::TcpStream::connect(server).expect("the server");
            let (mut down, mut back) = (client.try_clone().expect("a socket"), up.try_clone().expect("a socket"));
            std::thread::spawn(move || std::io::copy(&mut back, &mut down));
            let (mut client, counted) = (client, counted.clone());
            std::thread::spawn(move || {
                let mut bytes = [0; 65_536];
                while let Ok(read @ 1..) = client.read(&mut bytes) {
                    // Each request begins a read, because the client sends one after the other.
                    counted.fetch_add(usize::from(bytes[..read].starts_with(b"POST /v1/apply")), Ordering::SeqCst);
                    if up.write_all(&bytes[..read]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (seen, address)
}
