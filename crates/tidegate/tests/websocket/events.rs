//! Events, their handlers and middleware.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tidegate::websocket::{Context, ErrorCode, Message, MessageError, Next, Router, RouterBuildError};

use crate::support::{Client, Counter, Say, ServerKind, for_every_server, say, serve, until};

for_every_server!(
    events_of_a_connection_are_handled_in_order,
    handler_error_goes_to_the_client,
    panic_is_internal_and_the_connection_stays_open,
    panic_while_validating_is_internal,
    unknown_type_is_unimplemented,
    malformed_message_is_invalid_argument,
    middleware_runs_in_order_and_can_stop_it,
    received_events_are_handled_after_the_client_left,
);

async fn events_of_a_connection_are_handled_in_order(server_kind: ServerKind) {
    let router: Router<()> = Router::builder()
        .on(|context: Context<()>, say: Say| async move {
            // The first is the slowest.
            for _ in 0..(100 - say.text.parse::<u32>().unwrap()) {
                tokio::task::yield_now().await;
            }
            context.send(&say)
        })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for number in 0..100 {
        client.send(say(&number.to_string())).await;
    }
    for number in 0..100 {
        assert_eq!(client.next().await["payload"]["text"], number.to_string());
    }
}

async fn handler_error_goes_to_the_client(server_kind: ServerKind) {
    let told = Counter::default();
    let error_hook = told.clone();
    let router: Router<()> = Router::builder()
        .on(|_: Context<()>, _: Say| async {
            Err(MessageError::new(ErrorCode::NotFound, "no such room").with_detail("room", 7))
        })
        .on_error(move |_, error| {
            assert_eq!(error.code(), ErrorCode::NotFound);
            error_hook.count();
        })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    // An ID does not make it an RPC.
    client.send(json!({ "type": "SAY", "meta": { "correlationId": "1" }, "payload": { "text": "" } })).await;
    let payload =
        json!({ "code": "NOT_FOUND", "message": "no such room", "details": { "room": 7 }, "retryable": false });
    assert_eq!(client.next().await, json!({ "type": "ERROR", "meta": {}, "payload": payload }));
    assert_eq!(told.get(), 1);
}

async fn panic_is_internal_and_the_connection_stays_open(server_kind: ServerKind) {
    let told = Counter::default();
    let error_hook = told.clone();
    let router: Router<()> = Router::builder()
        .on(|context: Context<()>, say: Say| async move {
            assert_ne!(say.text, "panic");
            context.send(&say)
        })
        .on_error(move |_, error| {
            error_hook.count();
            panic!("{error}");
        })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(say("panic")).await;
    assert_eq!(client.error().await, "INTERNAL");
    client.send(say("on")).await;
    assert_eq!(client.next().await["payload"]["text"], "on");
    assert_eq!(told.get(), 1);
}

async fn panic_while_validating_is_internal(server_kind: ServerKind) {
    #[derive(serde::Deserialize)]
    struct PanickingMessage;
    impl Message for PanickingMessage {
        const TYPE: &'static str = "ODD";

        fn validate(&self) -> Result<(), String> {
            panic!("odd");
        }
    }
    let told = Counter::default();
    let error_hook = told.clone();
    let router: Router<()> = Router::builder()
        .on(|_: Context<()>, _: PanickingMessage| async {})
        .on_error(move |_, _| error_hook.count())
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for _ in 0..2 {
        client.send(json!({ "type": "ODD" })).await;
        assert_eq!(client.error().await, "INTERNAL");
    }
    assert_eq!(told.get(), 2);
}

async fn unknown_type_is_unimplemented(server_kind: ServerKind) {
    let router: Router<()> = Router::builder().build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(say("")).await;
    assert_eq!(client.error().await, "UNIMPLEMENTED");
    // It may be an RPC, so the client may wait for an answer.
    client.call("7", "NOBODY", json!(null)).await;
    let message = client.next().await;
    assert_eq!((&message["type"], &message["meta"]["correlationId"]), (&json!("RPC_ERROR"), &json!("7")));
    client.send(json!({ "type": "$ws:open" })).await;
    assert_eq!(client.error().await, "INVALID_ARGUMENT");
}

async fn malformed_message_is_invalid_argument(server_kind: ServerKind) {
    let router: Router<()> = Router::builder().on(|_: Context<()>, _: Say| async {}).build().unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for text in ["", "[]", "{\"type\":7}", "{\"type\":\"SAY\"", "\u{0}"] {
        client.send_frame(text.into()).await;
        assert_eq!(client.error().await, "INVALID_ARGUMENT", "{text}");
    }
    client.send_frame(vec![1, 2, 3].into()).await;
    assert_eq!(client.error().await, "INVALID_ARGUMENT", "a binary frame");
    client.send(json!({ "type": "SAY" })).await;
    assert_eq!(client.error().await, "INVALID_ARGUMENT", "no payload");
    client.send(json!({ "type": "SAY", "payload": { "text": 7 } })).await;
    assert_eq!(client.error().await, "INVALID_ARGUMENT", "another payload");
    client.send(say("no")).await;
    let message = client.next().await;
    assert_eq!(message["payload"]["message"], "not that", "what the type itself refuses");
}

async fn middleware_runs_in_order_and_can_stop_it(server_kind: ServerKind) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let seen = Arc::clone(&seen);
        move |context: Context<()>, next: Next<()>| {
            let seen = Arc::clone(&seen);
            async move {
                seen.lock().unwrap().push(format!("{name} {}", context.message_type()));
                let answer = next.run(context).await;
                seen.lock().unwrap().push(format!("{name} {}", if answer.is_ok() { "ok" } else { "error" }));
                answer
            }
        }
    };
    let handled = Counter::default();
    let handled_by = handled.clone();
    let router: Router<()> = Router::builder()
        .wrap(note("first"))
        .wrap_type::<Say, _, _>(note("of SAY"))
        .wrap_type::<crate::support::Sum, _, _>(note("of another"))
        .wrap(|_, _| async { Err(MessageError::new(ErrorCode::PermissionDenied, "not you")) })
        .on(move |_: Context<()>, _: Say| {
            handled_by.count();
            async {}
        })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    client.send(say("")).await;
    assert_eq!(client.error().await, "PERMISSION_DENIED");
    assert_eq!(*seen.lock().unwrap(), ["first SAY", "of SAY SAY", "of SAY error", "first error"]);
    assert_eq!(handled.get(), 0);
}

async fn received_events_are_handled_after_the_client_left(server_kind: ServerKind) {
    let handled = Counter::default();
    let handled_by = handled.clone();
    let router: Router<()> = Router::builder()
        .on(move |_: Context<()>, _: Say| {
            let handled = handled_by.clone();
            async move {
                tokio::task::yield_now().await;
                handled.count();
            }
        })
        .build()
        .unwrap();
    let mut client = Client::connect(serve(server_kind, &router).await).await;
    for _ in 0..20 {
        client.send(say("")).await;
    }
    client.0.close(None).await.unwrap();
    until(|| handled.get() == 20).await;
    until(|| router.connection_count() == 0).await;
}

#[test]
fn reserved_types_and_duplicate_handlers_are_build_errors() {
    struct Reserved;
    impl Message for Reserved {
        const TYPE: &'static str = "$ws:mine";
    }
    impl<'de> serde::Deserialize<'de> for Reserved {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            <()>::deserialize(deserializer).map(|()| Reserved)
        }
    }
    let router = Router::<()>::builder().on(|_: Context<()>, _: Reserved| async {}).build();
    assert!(matches!(router, Err(RouterBuildError::ReservedType("$ws:mine"))), "{router:?}");
    let twice = Router::<()>::builder().on(|_: Context<()>, _: Say| async {}).on(|_: Context<()>, _: Say| async {});
    assert!(matches!(twice.build(), Err(RouterBuildError::DuplicateHandler("SAY"))));
}
