//! The warning about an untrusted proxy, once.

use tidegate::websocket::Router;

use crate::support::{Client, Over, serve};
use crate::warnings::warnings;

#[tokio::test]
async fn router_warns_once_of_an_untrusted_proxy() {
    for (over, so_far) in [(Over::Tungstenite, 0), (Over::Axum, 1)] {
        assert_eq!(warnings().len(), so_far);
        let router: Router<()> = Router::builder().build().unwrap();
        let address = serve(over, &router).await;
        for _ in 0..3 {
            Client::connect(address).await;
        }
        let told = warnings();
        assert_eq!(told.len(), so_far + 1, "{told:?}");
        assert!(told[so_far].starts_with("a request from 127.0.0.1 came with x-forwarded-for"), "{told:?}");
    }
}
