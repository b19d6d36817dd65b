//! Topics and their subscribers.

use serde::Deserialize;
use serde_json::json;
use tidegate::websocket::{Context, Message, Router};

use crate::support::{Client, Say, ServerKind, for_every_server, say, serve, until};

for_every_server!(
    subscribers_get_published_messages,
    closed_connection_gets_no_published_messages,
    concurrent_rpcs_are_bounded
);

#[derive(Deserialize)]
struct Join(String);

impl Message for Join {
    const TYPE: &'static str = "JOIN";
}

#[derive(Deserialize)]
struct Leave(String);

impl Message for Leave {
    const TYPE: &'static str = "LEAVE";
}

fn rooms() -> Router<()> {
    Router::builder()
        .max_topics(2)
        .on(|context: Context<()>, Join(room): Join| async move {
            let text = context.subscribe(&room)?.to_string();
            context.send(&Say { text })
        })
        .on(|context: Context<()>, Leave(room): Leave| async move {
            let text = context.unsubscribe(&room).to_string();
            context.send(&Say { text })
        })
        .on(|context: Context<()>, say: Say| async move {
            let others = context.publish("room", &say)?;
            context.send(&Say { text: others.to_string() })
        })
        .build()
        .unwrap()
}

impl Client {
    async fn says(&mut self, message_type: &str, room: &str) -> String {
        self.send(json!({ "type": message_type, "payload": room })).await;
        self.text().await
    }

    async fn text(&mut self) -> String {
        self.next().await["payload"]["text"].as_str().unwrap().to_owned()
    }
}

async fn subscribers_get_published_messages(server_kind: ServerKind) {
    let router = rooms();
    let address = serve(server_kind, &router).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Client::connect(address).await);
    }
    for client in &mut clients[..3] {
        assert_eq!(client.says("JOIN", "room").await, "true");
    }
    assert_eq!(clients[3].says("JOIN", "another").await, "true");
    assert_eq!(clients[0].says("JOIN", "room").await, "false", "it was there already");
    clients[0].send(say("hello")).await;
    assert_eq!(clients[0].text().await, "2", "its own it does not get");
    assert_eq!(clients[1].text().await, "hello");
    assert_eq!(clients[2].text().await, "hello");
    assert_eq!(router.publish("room", &Say { text: "to all".to_owned() }), Ok(3));
    for client in &mut clients[..3] {
        assert_eq!(client.text().await, "to all");
    }
    assert_eq!(clients[2].says("LEAVE", "room").await, "true");
    assert_eq!(clients[2].says("LEAVE", "room").await, "false");
    assert_eq!(router.publish("room", &Say { text: "on".to_owned() }), Ok(2));
    assert_eq!(clients[3].says("LEAVE", "another").await, "true", "and nothing came before");
}

async fn closed_connection_gets_no_published_messages(server_kind: ServerKind) {
    let router = rooms();
    let address = serve(server_kind, &router).await;
    let mut client = Client::connect(address).await;
    assert_eq!(client.says("JOIN", "room").await, "true");
    drop(client);
    until(|| router.publish("room", &Say { text: String::new() }) == Ok(0)).await;
}

async fn concurrent_rpcs_are_bounded(server_kind: ServerKind) {
    let mut client = Client::connect(serve(server_kind, &rooms()).await).await;
    assert_eq!(client.says("JOIN", "1").await, "true");
    assert_eq!(client.says("JOIN", "2").await, "true");
    client.send(json!({ "type": "JOIN", "payload": "3" })).await;
    assert_eq!(client.error().await, "FAILED_PRECONDITION");
    assert_eq!(client.says("LEAVE", "1").await, "true");
    assert_eq!(client.says("JOIN", "3").await, "true");
}
