//! The adapter suite on AWS Lambda. A gateway converts requests into events, as API Gateway does.

use std::net::IpAddr;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lambda_http::{Body, Error, IntoResponse, Request, Response};
use serde_json::{Map, Value, json};
use tidegate::enforce::Outcome;
use tidegate::tower::AdmissionLayer;
use tidegate_lambda::with_peer_and_route;
use tidegate_testkit::adapters::{Adapter, AddressSender, App};
use tower::{ServiceBuilder, ServiceExt};

/// Creates an event from a request and its peer.
type MakeEvent = fn(&hyper::Request<Incoming>, IpAddr) -> Value;

fn serve(app: App, sender: AddressSender, make_event: MakeEvent) {
    let gate = AdmissionLayer::from(app.gate());
    sender.serve_on_tokio(async |listener| {
        while let Ok((stream, peer)) = listener.accept().await {
            let function = tower::service_fn({
                let app = app.clone();
                move |request: Request| {
                    let response = respond(&app, &request);
                    async { Ok::<_, Error>(response) }
                }
            });
            let function = ServiceBuilder::new().map_request(with_peer_and_route).layer(gate.clone()).service(function);
            let gateway = service_fn(move |request: hyper::Request<Incoming>| {
                let event = lambda_http::request::from_str(&make_event(&request, peer.ip()).to_string()).unwrap();
                let answered = function.clone().oneshot(event);
                async { Ok::<_, Error>(answered.await?.into_response().await.map(body_text)) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), gateway));
        }
    });
}

fn body_text(body: Body) -> String {
    match body {
        Body::Text(text) => text,
        body => String::from_utf8(body.to_vec()).unwrap(),
    }
}

fn respond(app: &App, request: &Request) -> Response<Body> {
    match request.uri().path() {
        "/fails" => Response::builder().status(401).header("x-app", "mine").body(app.failure().into()).unwrap(),
        "/outcome" => Response::new(app.outcome(request.extensions().get::<Outcome>()).into()),
        _ => Response::new(app.page().into()),
    }
}

fn route_template(path: &str) -> &str {
    if path.starts_with("/users/") { "/users/{id}" } else { path }
}

/// Returns the headers with all values of each.
fn headers(request: &hyper::Request<Incoming>) -> Map<String, Value> {
    let value = |value: &hyper::header::HeaderValue| Value::from(value.to_str().unwrap());
    let all = |name| request.headers().get_all(name).iter().map(value).collect::<Value>();
    request.headers().keys().map(|name| (name.to_string(), all(name))).collect()
}

/// Creates the event of a REST API.
fn rest_event(request: &hyper::Request<Incoming>, peer: IpAddr) -> Value {
    let (method, path) = (request.method().as_str(), request.uri().path());
    let query: Map<_, _> = request
        .uri()
        .query()
        .and_then(|query| query.split_once('='))
        .into_iter()
        .map(|(name, value)| (name.to_owned(), json!([value])))
        .collect();
    json!({
        "resource": route_template(path), "path": path, "httpMethod": method,
        "headers": {}, "multiValueHeaders": headers(request), "multiValueQueryStringParameters": query,
        "queryStringParameters": {}, "pathParameters": {}, "stageVariables": {},
        "requestContext": { "resourcePath": route_template(path), "httpMethod": method, "identity": { "sourceIp": peer } },
        "body": null, "isBase64Encoded": false,
    })
}

/// Creates the event of an HTTP API.
fn http_event(request: &hyper::Request<Incoming>, peer: IpAddr) -> Value {
    let (method, path) = (request.method().as_str(), request.uri().path());
    let joined = headers(request).into_iter().map(|(name, values)| {
        let values: Vec<_> = values.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect();
        (name, values.join(", ").into())
    });
    json!({
        "version": "2.0", "routeKey": format!("{method} {}", route_template(path)), "rawPath": path,
        "rawQueryString": request.uri().query().unwrap_or_default(), "headers": joined.collect::<Map<_, _>>(),
        "requestContext": {
            "routeKey": format!("{method} {}", route_template(path)), "stage": "$default", "accountId": "1", "apiId": "1",
            "http": { "method": method, "path": path, "sourceIp": peer, "protocol": "HTTP/1.1", "userAgent": "" },
        },
        "isBase64Encoded": false,
    })
}

mod rest_v1 {
    use super::*;
    use tidegate_testkit::adapter_tests;

    struct RestV1;

    impl Adapter for RestV1 {
        const STREAMS: bool = false;

        fn serve(app: App, sender: AddressSender) {
            super::serve(app, sender, rest_event);
        }
    }

    adapter_tests!(suite, RestV1);
}

mod http_v2 {
    use super::*;
    use tidegate_testkit::adapter_tests;

    struct HttpV2;

    impl Adapter for HttpV2 {
        const STREAMS: bool = false;

        fn serve(app: App, sender: AddressSender) {
            super::serve(app, sender, http_event);
        }
    }

    adapter_tests!(suite, HttpV2);
}
