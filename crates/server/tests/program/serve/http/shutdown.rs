//! The shutdown under load over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::{Client, StatusCode};

use super::{start_server, url};

/// Connections with requests in a row; on shutdown, the response in flight has `connection: close`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_under_load_drops_no_request() {
    let (program, _config) = start_server(&[]);
    let limit = url(&program, "/v1/limit");
    let answered = Arc::new(AtomicU64::new(0));
    let clients = (0..16).map(|_| {
        let (limit, answered) = (limit.clone(), Arc::clone(&answered));
        tokio::spawn(async move {
            let client = Client::new();
            loop {
                let answer = client.post(&limit).body(r#"{"limit":"five","key":"u"}"#).send().await;
                match answer {
                    Ok(answer) => {
                        assert_eq!(answer.status(), StatusCode::OK);
                        let closes = answer.headers().get("connection").is_some_and(|value| value == "close");
                        assert!(answer.text().await.expect("all of the answer").starts_with('{'));
                        answered.fetch_add(1, Ordering::Relaxed);
                        if closes {
                            return;
                        }
                    }
                    Err(error) => panic!("a request was dropped: {error:?}"),
                }
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    while answered.load(Ordering::Relaxed) < 2_000 {
        assert!(clients.iter().all(|client| !client.is_finished()), "nobody fails before the end");
        tokio::task::yield_now().await;
    }
    program.signal("TERM");
    for client in clients {
        client.await.expect("no request was dropped");
    }
    let (status, log) = tokio::task::spawn_blocking(|| program.wait_for_exit()).await.expect("it ends");
    assert!(status.success(), "{log:?}");
}
