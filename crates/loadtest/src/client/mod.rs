//! A client connection, in one of the three protocols.

mod grpc;
mod http;
mod resp;

use tokio::time::{Instant, timeout};

use crate::run::RequestTemplate;
use crate::target::{CONNECT_TIMEOUT, Connector, IoStream, Protocol};

/// The response to one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    Denied,
    /// Allowed because no rule matches. Envoy's protocol allows an unknown domain or descriptor.
    Unmatched,
    Failed(Box<RequestError>),
}

/// The error of a request without a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestError {
    /// The kind of error, of which there are few. Each is counted separately.
    pub(crate) kind: String,
    /// An excerpt of the server's own message.
    pub(crate) message: String,
    /// Whether a retry may help: the request itself is not wrong.
    pub(crate) is_transient: bool,
}

/// Responses in the order of the requests, with their arrival times.
pub(crate) type Responses = Vec<(Verdict, Instant)>;

/// The reason why a connection is unusable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConnectionLost(pub(crate) String);

/// A connection in one of the protocols.
pub(crate) enum Client {
    Http(http::HttpConnection),
    Grpc(Box<grpc::GrpcConnection>),
    Resp(resp::RespConnection),
}

impl Client {
    /// Opens a connection; the error says what is wrong and what to do next.
    pub(crate) async fn open(
        connector: &Connector,
        protocol: Protocol,
        template: &RequestTemplate,
    ) -> Result<Self, String> {
        let stream = connector.open().await?;
        match timeout(CONNECT_TIMEOUT, Client::from_stream(stream, protocol, template)).await {
            Ok(opened) => opened.map_err(|ConnectionLost(why)| why),
            Err(_) => Err(format!("connected, and then nothing for {CONNECT_TIMEOUT:?}: is that the right port?")),
        }
    }

    /// Speaks the protocol over an open stream.
    pub(crate) async fn from_stream(
        stream: IoStream,
        protocol: Protocol,
        template: &RequestTemplate,
    ) -> Result<Self, ConnectionLost> {
        Ok(match protocol {
            Protocol::Http => Client::Http(http::HttpConnection::from_stream(stream, template).await?),
            Protocol::Grpc => Client::Grpc(Box::new(grpc::GrpcConnection::from_stream(stream, template).await?)),
            Protocol::Resp => Client::Resp(resp::RespConnection::from_stream(stream, template).await?),
        })
    }

    /// Requests a decision for each key, and appends the responses. A connection that is lost keeps those that had arrived.
    ///
    /// Only the Redis protocol pipelines several keys.
    pub(crate) async fn send(&mut self, keys: &[u64], responses: &mut Responses) -> Result<(), ConnectionLost> {
        match self {
            Client::Resp(resp) => return resp.send(keys, responses).await,
            Client::Http(http) => {
                for key in keys {
                    let verdict = http.send(*key).await?;
                    responses.push((verdict, Instant::now()));
                }
            }
            Client::Grpc(grpc) => {
                for key in keys {
                    let verdict = grpc.send(*key).await?;
                    responses.push((verdict, Instant::now()));
                }
            }
        }
        Ok(())
    }
}

/// Returns a readable excerpt of a server's message.
fn excerpt(text: &str) -> String {
    let text: String = text.chars().filter(|character| !character.is_control()).take(300).collect();
    if text.trim().is_empty() { "without a word".to_owned() } else { text }
}
