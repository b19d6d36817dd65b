//! A minimal HTTP/1.1 client that sends only `host` and the given headers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection.
pub(super) struct Client(BufReader<TcpStream>);

/// A response.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers: lower-case names, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Reply {
    /// Returns the value of a header. Several values are joined by commas.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<_> =
            self.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| &**value).collect();
        if values.is_empty() { None } else { Some(values.join(", ")) }
    }

    /// Returns the rate limit headers and `retry-after`, sorted.
    pub(super) fn limit_headers(&self) -> Vec<(&str, &str)> {
        let is_limit_header = |name: &str| name.contains("ratelimit") || name == "retry-after";
        let mut headers: Vec<_> = self.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        headers.retain(|(name, _)| is_limit_header(name));
        headers.sort_unstable();
        headers
    }

    /// Parses the body as a problem (RFC 9457).
    pub(super) fn problem(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type").as_deref(), Some("application/problem+json"), "{self:?}");
        serde_json::from_str(&self.body).expect("a problem")
    }
}

/// Sends one `GET` request on a new connection.
pub fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Reply {
    Client::connect(address).get(path, headers)
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        // A broken case must fail, not hang.
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        Client(BufReader::new(stream))
    }

    /// Sends a `GET` request and reads the whole response. The connection stays open.
    pub(super) fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut reply = self.get_head(path, headers);
        let length = reply.header("content-length").map(|length| length.parse().expect("a length"));
        match length {
            Some(length) => {
                let mut body = vec![0; length];
                self.0.read_exact(&mut body).expect("the body");
                reply.body = String::from_utf8(body).expect("text");
            }
            None => {
                while let Some(chunk) = self.chunk() {
                    reply.body.push_str(&chunk);
                }
            }
        }
        reply
    }

    /// Sends a `GET` request and reads the head of the response.
    pub(super) fn get_head(&mut self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.request("GET", path, headers)
    }

    /// Sends a `HEAD` request and reads the response, which is a head. The connection stays open.
    pub(super) fn head(&mut self, path: &str) -> Reply {
        self.request("HEAD", path, &[])
    }

    fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        headers.iter().for_each(|(name, value)| request.push_str(&format!("{name}: {value}\r\n")));
        request.push_str("\r\n");
        self.0.get_mut().write_all(request.as_bytes()).expect("the request");
        let line = self.line();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Reply { status, headers, body: String::new() }
    }

    /// Reads the next chunk of a chunked body. `None` at its end.
    pub(super) fn chunk(&mut self) -> Option<String> {
        let length = usize::from_str_radix(&self.line(), 16).expect("a chunked body");
        let mut chunk = vec![0; length + 2];
        self.0.read_exact(&mut chunk).expect("a chunk");
        chunk.truncate(length);
        if chunk.is_empty() { None } else { Some(String::from_utf8(chunk).expect("text")) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line.truncate(line.trim_end().len());
        line
    }
}
