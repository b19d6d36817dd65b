//! The warning about an untrusted proxy, once.

use tidegate::websocket::Router;

use crate::support::{Client, ServerKind, serve};
use crate::warnings::warnings;

#[tokio::test]
async fn router_warns_once_of_an_untrusted_proxy() {
    for (server_kind, so_far) in [(ServerKind::Tungstenite, 0), (ServerKind::Axum, 1)] {
        assert_eq!(warnings().len(), so_far);
        let router: Router<()> = Router::builder().build().unwrap();
        let address = serve(server_kind, &router).await;
        for _ in 0..3 {
            Client::connect(address).await;
        }
        let warned = warnings();
        assert_eq!(warned.len(), so_far + 1, "{warned:?}");
        assert!(warned[so_far].starts_with("a request from 127.0.0.1 came with x-forwarded-for"), "{warned:?}");
    }
}
