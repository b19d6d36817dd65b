//! The life of a connection: handshake, heartbeat and close.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tidegate::http::{ClientAddress, TrustProxy};
use tidegate::websocket::{CloseEvent, Connection, Context, ErrorCode, MessageError, Router, close_code};
use tokio::sync::Semaphore;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Error as Failed;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::support::{
    Client, Counter, Say, ServerKind, User, by_name, for_every_server, say, serve, until, within_timeout,
};

for_every_server!(
    handlers_see_the_connection_data,
    trusted_proxy_sets_the_client_address,
    on_open_runs_before_the_first_message,
    rejected_connection_gets_the_reason,
    on_close_gets_code_and_reason,
    handler_can_close_its_connection,
    close_all_closes_every_connection,
    queued_messages_arrive_before_the_close_frame,
    panicking_hook_leaves_no_connection_behind,
    client_that_answers_pings_stays_connected,
    client_that_is_not_read_is_not_taken_for_dead,
);

async fn handlers_see_the_connection_data(server_kind: ServerKind) {
    let router = Router::<User>::builder()
        .on(|context: Context<User>, _: Say| async move {
            let address = context.client().unwrap().address();
            context.send(&Say { text: format!("{} from {address}", context.data().name) })
        })
        .authenticate(by_name)
        .unwrap();
    let mut client = Client::connect_as(serve(server_kind, &router).await, "alice").await;
    client.send(say("")).await;
    assert_eq!(client.next().await["payload"]["text"], "alice from 127.0.0.1");
}

async fn trusted_proxy_sets_the_client_address(server_kind: ServerKind) {
    let router: Router<()> = Router::builder()
        .client_address(ClientAddress::new().trust(TrustProxy::hops(1)))
        .on(|context: Context<()>, _: Say| async move {
            context.send(&Say { text: context.client().unwrap().address().to_string() })
        })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(say("")).await;
    assert_eq!(client.next().await["payload"]["text"], "192.0.2.9");
}

async fn on_open_runs_before_the_first_message(server_kind: ServerKind) {
    let router: Router<()> = Router::builder()
        .on_open(|connection: Connection<()>| async move {
            tokio::task::yield_now().await;
            connection.send(&Say { text: "welcome".to_owned() })
        })
        .on(|context: Context<()>, say: Say| async move { context.send(&say) })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(say("hello")).await;
    assert_eq!(client.next().await["payload"]["text"], "welcome");
    assert_eq!(client.next().await["payload"]["text"], "hello");
}

async fn rejected_connection_gets_the_reason(server_kind: ServerKind) {
    let router: Router<()> = Router::builder()
        .on_open(|_: Connection<()>| async { Err(MessageError::new(ErrorCode::PermissionDenied, "é".repeat(100))) })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    assert_eq!(client.error().await, "PERMISSION_DENIED");
    assert_eq!(client.closed().await, Some(close_code::POLICY), "though the reason is too long for a close frame");
    until(|| router.connection_count() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn axum_rejects_an_unauthenticated_client_with_a_status() {
    let router = Router::<User>::builder().authenticate(|handshake| async {
        match by_name(handshake).await {
            Ok(user) if user.name == "flood" => Err(MessageError::new(ErrorCode::ResourceExhausted, "too often")
                .with_retry_after(Duration::from_millis(1_001))),
            other => other,
        }
    });
    let router = router.unwrap();
    let address = serve(ServerKind::Axum, &router).await;
    let refused = |name: &'static str| async move {
        match within_timeout(connect_async(format!("ws://{address}/?name={name}"))).await {
            Err(Failed::Http(response)) => response,
            other => panic!("{other:?}"),
        }
    };
    let response = refused("mallory").await;
    assert_eq!(response.status(), 401);
    let body = String::from_utf8(response.into_body().unwrap()).unwrap();
    assert_eq!(body, r#"{"code":"UNAUTHENTICATED","message":"Who?","details":{},"retryable":false}"#);
    let response = refused("flood").await;
    assert_eq!((response.status().as_u16(), &response.headers()["retry-after"]), (429, &"2".parse().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn accepted_socket_of_an_unauthenticated_client_is_closed() {
    let router = Router::<User>::builder().authenticate(by_name).unwrap();
    let mut client = Client::connect_as(serve(ServerKind::Tungstenite, &router).await, "mallory").await;
    assert_eq!(client.error().await, "UNAUTHENTICATED");
    assert_eq!(client.closed().await, Some(close_code::POLICY));
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_authentication_is_rejected() {
    let router = Router::<User>::builder()
        .handshake_timeout(Duration::from_millis(10))
        .authenticate(|_| async { std::future::pending().await })
        .unwrap();
    let mut client = Client::connect(serve(ServerKind::Tungstenite, &router).await).await;
    assert_eq!(client.error().await, "DEADLINE_EXCEEDED");
    let address = serve(ServerKind::Axum, &router).await;
    let refused = within_timeout(connect_async(format!("ws://{address}/"))).await;
    assert!(matches!(refused, Err(Failed::Http(response)) if response.status() == 503));
}

/// A router that records how its connections end.
fn noting() -> (Router<()>, Arc<Mutex<Vec<CloseEvent>>>) {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&ends);
    let router = Router::builder()
        .on(|context: Context<()>, say: Say| async move {
            context.close(4_321, &say.text);
            context.close(4_322, "the first counts");
        })
        .on_close(move |_: Connection<()>, closed| {
            noted.lock().unwrap().push(closed);
            async {}
        })
        .build()
        .unwrap();
    (router, ends)
}

async fn on_close_gets_code_and_reason(server_kind: ServerKind) {
    let (router, ends) = noting();
    let address = serve(server_kind, &router).await;
    let ended = |count: usize| {
        let ends = Arc::clone(&ends);
        async move {
            until(|| ends.lock().unwrap().len() == count).await;
            let closed = ends.lock().unwrap()[count - 1].clone();
            (closed.code, closed.reason)
        }
    };
    let mut client = Client::connect(address).await;
    client.0.close(Some(CloseFrame { code: 4_000.into(), reason: "bye".into() })).await.unwrap();
    assert_eq!(ended(1).await, (4_000, "bye".to_owned()));
    assert!(matches!(client.frame().await, Some(Frame::Close(_)) | None), "and answers it");
    let mut client = Client::connect(address).await;
    client.0.close(None).await.unwrap();
    assert_eq!(ended(2).await, (1_005, String::new()));
    drop(Client::connect(address).await);
    assert_eq!(ended(3).await, (1_006, String::new()));
    assert_eq!(router.connection_count(), 0);
}

async fn handler_can_close_its_connection(server_kind: ServerKind) {
    let (router, ends) = noting();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(say("enough")).await;
    let Some(Frame::Close(Some(frame))) = client.frame().await else { panic!("it is not closed") };
    assert_eq!((u16::from(frame.code), frame.reason.as_str()), (4_321, "enough"));
    until(|| ends.lock().unwrap().len() == 1).await;
    assert_eq!(ends.lock().unwrap()[0].code, 4_321);
}

async fn close_all_closes_every_connection(server_kind: ServerKind) {
    let (router, _) = noting();
    let address = serve(server_kind, &router).await;
    let mut clients = vec![Client::connect(address).await, Client::connect(address).await];
    until(|| router.connection_count() == 2).await;
    router.close_all(close_code::GOING_AWAY, "a new version");
    for client in &mut clients {
        assert_eq!(client.closed().await, Some(1_001));
    }
    until(|| router.connection_count() == 0).await;
}

async fn queued_messages_arrive_before_the_close_frame(server_kind: ServerKind) {
    let router: Router<()> = Router::builder()
        .on(|context: Context<()>, say: Say| async move {
            for _ in 0..100 {
                context.send(&say)?;
            }
            context.close(4_000, "");
            Ok(())
        })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(say("x")).await;
    for _ in 0..100 {
        assert_eq!(client.next().await["payload"]["text"], "x");
    }
    assert_eq!(client.closed().await, Some(4_000));
}

async fn panicking_hook_leaves_no_connection_behind(server_kind: ServerKind) {
    let router: Router<()> = Router::builder()
        .on_open(|connection: Connection<()>| async move {
            connection.subscribe("all")?;
            Ok(())
        })
        .on_close(|_: Connection<()>, _| async { panic!("at the very end") })
        .build()
        .unwrap();
    let client = Client::connect(serve(server_kind, &router).await).await;
    until(|| router.publish("all", &Say { text: String::new() }) == Ok(1)).await;
    drop(client);
    until(|| router.connection_count() == 0).await;
    assert_eq!(router.publish("all", &Say { text: String::new() }), Ok(0));
}

async fn client_that_answers_pings_stays_connected(server_kind: ServerKind) {
    let router: Router<()> =
        Router::builder().heartbeat(Duration::from_millis(1), Duration::from_secs(60)).build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    // Each ping but the first shows that the previous one was answered.
    for _ in 0..10 {
        let frame = within_timeout(client.0.next()).await;
        assert!(matches!(frame, Some(Ok(Frame::Ping(_)))), "{frame:?}");
    }
    assert_eq!(router.connection_count(), 1);
}

async fn client_that_is_not_read_is_not_taken_for_dead(server_kind: ServerKind) {
    let (gate, handled) = (Arc::new(Semaphore::new(0)), Counter::default());
    let (opens, counts) = (Arc::clone(&gate), handled.clone());
    let router: Router<()> = Router::builder()
        .heartbeat(Duration::from_millis(10), Duration::from_millis(500))
        .on(move |_: Context<()>, _: Say| {
            let (gate, counts) = (Arc::clone(&opens), counts.clone());
            async move {
                gate.acquire().await.unwrap().forget();
                counts.count();
            }
        })
        .build()
        .unwrap();
    let (mut sink, mut stream) = Client::connect(serve(server_kind, &router).await).await.0.split();
    // It answers pings while a task drives its reads.
    tokio::spawn(async move { while let Some(Ok(_)) = stream.next().await {} });
    // More than the queue holds: nothing is read after them.
    for _ in 0..100 {
        within_timeout(sink.send(Frame::text(say("").to_string()))).await.unwrap();
    }
    // Longer than a peer may be silent.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(router.connection_count(), 1);
    gate.add_permits(100);
    until(|| handled.get() == 100).await;
}
