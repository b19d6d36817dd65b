//! The operator is told, once, of a proxy that nobody trusts.

use tidegate::ws::Router;

use crate::support::{Client, Over, serve};
use crate::warnings::warnings;

#[tokio::test]
async fn a_router_warns_of_a_forgotten_proxy_once() {
    for (over, so_far) in [(Over::Tungstenite, 0), (Over::Axum, 1)] {
        assert_eq!(warnings().len(), so_far);
        let router: Router<()> = Router::builder().build();
        let address = serve(over, &router).await;
        for _ in 0..3 {
            Client::connect(address).await;
        }
        let told = warnings();
        assert_eq!(told.len(), so_far + 1, "{told:?}");
        assert!(told[so_far].starts_with("a request from 127.0.0.1 came with x-forwarded-for"), "{told:?}");
    }
}
