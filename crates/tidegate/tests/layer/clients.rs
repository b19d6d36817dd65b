//! Clients: one that writes and reads the bytes of HTTP/1.1 itself, and one for both versions.

use std::net::SocketAddr;

use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The header lines as received, without the date.
    pub(crate) lines: Vec<String>,
    pub(crate) body: String,
}

impl Reply {
    /// Returns the header lines about limits.
    pub(crate) fn limit_headers(&self) -> Vec<&str> {
        let is_limit_header =
            |line: &str| ["ratelimit", "x-ratelimit", "retry-after"].iter().any(|name| line.starts_with(name));
        self.lines.iter().map(String::as_str).filter(|line| is_limit_header(line)).collect()
    }

    /// Returns the value of the only header of that name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        match self.headers(name)[..] {
            [] => None,
            [value] => Some(value),
            _ => panic!("{name} twice: {self:?}"),
        }
    }

    /// Returns the values of all headers of that name, in order.
    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        let headers = self.lines.iter().filter_map(|line| line.split_once(": "));
        headers.filter(|(header, _)| *header == name).map(|(_, value)| value).collect()
    }

    /// The body of a response that is a problem.
    pub(crate) fn problem(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A client that writes and reads the bytes of one HTTP/1.1 connection.
pub(crate) struct RawClient(BufStream<TcpStream>);

impl RawClient {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        RawClient(BufStream::new(TcpStream::connect(address).await.unwrap()))
    }

    /// Sends a GET and reads its answer. The connection stays open.
    pub(crate) async fn get(&mut self, path: &str, headers: &[&str]) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1"), headers).await
    }

    pub(crate) async fn send(&mut self, request_line: &str, headers: &[&str]) -> Reply {
        let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let request = format!("{request_line}\r\nhost: localhost\r\n{headers}\r\n");
        self.0.write_all(request.as_bytes()).await.unwrap();
        self.0.flush().await.unwrap();
        self.read().await
    }

    async fn read(&mut self) -> Reply {
        let status_line = self.line().await;
        let status = status_line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let mut reply =
            Reply { status: status.expect("an HTTP/1.1 status line"), lines: Vec::new(), body: String::new() };
        loop {
            let line = self.line().await;
            if line.is_empty() {
                break;
            }
            if !line.starts_with("date: ") {
                reply.lines.push(line);
            }
        }
        let length = reply.header("content-length").expect("a length").parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        reply.body = String::from_utf8(body).unwrap();
        reply
    }

    /// Reads one line, which must end with CRLF.
    async fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).await.unwrap();
        let line = line.strip_suffix(b"\r\n").expect("a whole line");
        String::from_utf8(line.to_vec()).unwrap()
    }
}

/// One GET over a connection of its own.
pub(crate) async fn get(address: SocketAddr) -> Reply {
    get_with(address, &[]).await
}

/// One GET with these headers over a connection of its own.
pub(crate) async fn get_with(address: SocketAddr, headers: &[&str]) -> Reply {
    RawClient::connect(address).await.get("/", headers).await
}

/// A client for HTTP/1.1 only.
pub(crate) fn http1() -> Client {
    Client::builder().no_proxy().http1_only().build().unwrap()
}

/// A client for HTTP/2 with prior knowledge.
pub(crate) fn http2() -> Client {
    Client::builder().no_proxy().http2_prior_knowledge().build().unwrap()
}

/// Sends a request, and reads the answer.
pub(crate) async fn send(request: RequestBuilder) -> Reply {
    let response = request.send().await.unwrap();
    let line = |(name, value): (_, &reqwest::header::HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
    let lines = response.headers().iter().filter(|(name, _)| *name != "date").map(line).collect();
    Reply { status: response.status().as_u16(), lines, body: response.text().await.unwrap() }
}
