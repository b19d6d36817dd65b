//! AWS Lambda: a function with a limit for each client, by the address in the event's context.
//!
//! `cargo run -p tidegate-lambda --example lambda` sends events to it. On Lambda, it serves.

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::env;

use lambda_http::tower::{ServiceBuilder, ServiceExt, service_fn};
use lambda_http::{Body, Error, Request, Response};
use tidegate::tower::RateLimitLayer;
use tidegate::{Quota, seconds};
use tidegate_lambda::with_peer_and_route;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    // Two at once for each client, and then one every ten seconds, in each instance of the function. For a quota that all
    // instances share, use a shared store such as Redis.
    let limit = RateLimitLayer::new(Quota::token_bucket(1, seconds(10))?.capacity(2)?);
    let hello = service_fn(async |_: Request| Ok::<_, Error>(Response::new(Body::from("Hello!"))));
    let function = ServiceBuilder::new().map_request(with_peer_and_route).layer(limit).service(hello);

    if env::var_os("AWS_LAMBDA_RUNTIME_API").is_some() {
        return lambda_http::run(function).await;
    }
    for (client, forged) in [("192.0.2.1", ""), ("192.0.2.1", ""), ("192.0.2.1", "198.51.100.9"), ("192.0.2.2", "")] {
        let response = function.clone().oneshot(event(client, forged)?).await?;
        println!("{client}: {}", response.status());
    }
    Ok(())
}

/// An event of an HTTP API, as API Gateway makes it.
fn event(client: &str, forged: &str) -> Result<Request, Error> {
    let event = format!(
        r#"{{
            "version": "2.0", "routeKey": "GET /", "rawPath": "/", "rawQueryString": "", "isBase64Encoded": false,
            "headers": {{ "host": "example.com", "x-forwarded-for": "{forged}" }},
            "requestContext": {{
                "routeKey": "GET /", "stage": "$default", "accountId": "1", "apiId": "1",
                "http": {{ "method": "GET", "path": "/", "sourceIp": "{client}", "protocol": "HTTP/1.1", "userAgent": "" }}
            }}
        }}"#
    );
    Ok(lambda_http::request::from_str(&event)?)
}
