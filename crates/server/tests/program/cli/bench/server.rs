//! Servers of known behaviour, which count.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tonic::{Request, Response, Status};

/// The behaviour of a server, by the number of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Allow,
    Deny,
    /// An error, in these words: a status and a detail over HTTP, a line over the Redis protocol.
    Fail(&'static str, &'static str),
    /// Hang up without a word.
    HangUp,
    /// Never answer.
    Ignore,
}

/// A server of known behaviour.
pub(super) struct Server {
    pub(super) url: String,
    seen: Arc<Seen>,
}

/// The requests that a server has received.
pub(super) struct Seen {
    act: fn(u64) -> Act,
    requests: AtomicU64,
    /// Allowed, denied, and everything else.
    acts: [AtomicU64; 3],
    /// The last request, as text.
    last: Mutex<String>,
}

impl Seen {
    fn new(act: fn(u64) -> Act) -> Self {
        Seen { act, requests: AtomicU64::new(0), acts: Default::default(), last: Mutex::default() }
    }

    fn act(&self, request: String) -> Act {
        let act = (self.act)(self.requests.fetch_add(1, Ordering::SeqCst));
        let index = match act {
            Act::Allow => 0,
            Act::Deny => 1,
            _ => 2,
        };
        self.acts[index].fetch_add(1, Ordering::SeqCst);
        *self.last.lock().expect("nobody panics") = request;
        act
    }
}

impl Server {
    /// Starts a server that speaks HTTP.
    pub(super) fn http(act: fn(u64) -> Act) -> Self {
        Server::start("http", act, |stream, seen| while answer_http(stream, seen).is_some() {})
    }

    /// Starts a server that speaks the Redis protocol.
    pub(super) fn resp(act: fn(u64) -> Act) -> Self {
        Server::start("redis", act, |stream, seen| while answer_resp(stream, seen).is_some() {})
    }

    /// Starts a server that speaks Envoy's protocol.
    pub(super) fn grpc(act: fn(u64) -> Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let seen = Arc::new(Seen::new(act));
        let service = RateLimitServiceServer::new(Envoy(Arc::clone(&seen)));
        listener.set_nonblocking(true).expect("it can");
        // It is bound already: a connection before the first accept waits.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("threads");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("it is nonblocking");
                let incoming = tonic::transport::server::TcpIncoming::from(listener);
                tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await
            })
        });
        Server { url: format!("grpc://{address}"), seen }
    }

    /// Allowed, denied, and everything else, as far as this server knows.
    pub(super) fn counts(&self) -> [u64; 3] {
        [0, 1, 2].map(|index: usize| self.seen.acts[index].load(Ordering::SeqCst))
    }

    pub(super) fn last(&self) -> String {
        self.seen.last.lock().expect("nobody panics").clone()
    }

    fn start(scheme: &str, act: fn(u64) -> Act, serve: fn(&mut BufReader<TcpStream>, &Seen)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("{scheme}://{}", listener.local_addr().expect("it is bound"));
        let seen = Arc::new(Seen::new(act));
        let of_server = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&of_server);
                std::thread::spawn(move || serve(&mut BufReader::new(stream), &seen));
            }
        });
        Server { url, seen }
    }
}

/// Answers one request; none when the connection is over.
fn answer_http(stream: &mut BufReader<TcpStream>, seen: &Seen) -> Option<()> {
    let mut request = String::new();
    let mut length = 0;
    loop {
        let start = request.len();
        if stream.read_line(&mut request).ok()? == 0 {
            return None;
        }
        let line = request[start..].trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    request.push_str(std::str::from_utf8(&body).ok()?);
    let decision = |allowed: bool| ("200 OK", format!("{{\"allowed\":{allowed},\"limit\":5,\"reason\":null}}"));
    let (status, body) = match seen.act(request) {
        Act::Allow => decision(true),
        Act::Deny => decision(false),
        Act::Fail(status, detail) => (status, format!("{{\"title\":\"t\",\"detail\":\"{detail}\"}}")),
        Act::HangUp => return None,
        Act::Ignore => loop {
            std::thread::park();
        },
    };
    // Written at once: a second small write would wait for the client to acknowledge the first.
    let reply = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.get_mut().write_all(reply.as_bytes()).ok()
}

/// Answers one command; none when the connection is over.
fn answer_resp(stream: &mut BufReader<TcpStream>, seen: &Seen) -> Option<()> {
    let count = number(stream, '*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(stream, '$')? + 2];
        stream.read_exact(&mut word).ok()?;
        words.push(String::from_utf8(word).ok()?.trim_end().to_owned());
    }
    // CL.THROTTLE says 0 where TG.LIMIT says 1.
    let first = |allow: bool| i32::from(allow == (words[0] == "TG.LIMIT"));
    let decision = |allow: bool| format!("*5\r\n:{}\r\n:5\r\n:4\r\n:-1\r\n:2\r\n", first(allow));
    let reply = match seen.act(words.join(" ")) {
        Act::Allow => decision(true),
        Act::Deny => decision(false),
        Act::Fail(kind, message) => format!("-{kind} {message}\r\n"),
        Act::HangUp => return None,
        Act::Ignore => loop {
            std::thread::park();
        },
    };
    stream.get_mut().write_all(reply.as_bytes()).ok()
}

fn number(stream: &mut BufReader<TcpStream>, sign: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(sign)?.parse().ok()
}

struct Envoy(Arc<Seen>);

#[tonic::async_trait]
impl RateLimitService for Envoy {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let token = request.metadata().get("authorization").and_then(|token| token.to_str().ok()).unwrap_or("none");
        let RateLimitRequest { domain, descriptors, hits_addend } = request.get_ref();
        let entries = &descriptors[0].entries;
        let text = format!("{domain} {}={} {hits_addend} {token}", entries[0].key, entries[0].value);
        let (code, limit) = match self.0.act(text) {
            Act::Allow => (Code::Ok, Some(RateLimit::default())),
            Act::Deny => (Code::OverLimit, Some(RateLimit::default())),
            // The domain is unknown.
            Act::Ignore => (Code::Ok, None),
            Act::Fail(_, message) => return Err(Status::unauthenticated(message)),
            Act::HangUp => return Err(Status::unavailable("gone")),
        };
        let status = DescriptorStatus { code: code.into(), current_limit: limit, ..DescriptorStatus::default() };
        let response =
            RateLimitResponse { overall_code: code.into(), statuses: vec![status], ..RateLimitResponse::default() };
        Ok(Response::new(response))
    }
}
