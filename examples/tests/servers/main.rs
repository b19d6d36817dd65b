//! The example servers, called over a socket as their first line says.

mod chat;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Once;

use tidegate_servers::{build_programs, program};

/// Builds the examples once for a run of these tests.
static BUILT: Once = Once::new();

/// A running example, until it is dropped.
struct Example {
    child: Child,
    address: String,
}

impl Example {
    fn start(name: &str) -> Self {
        BUILT.call_once(|| {
            let built = build_programs(&[]).arg("--quiet").status();
            assert!(built.unwrap().success(), "the examples do not build");
        });
        let mut example = program(&format!("examples/{name}"));
        let mut child = example.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("http://").expect("how to try it").1.trim_end_matches('/').to_owned();
        Example { child, address }
    }

    /// Sends a request. Returns the status, the headers and the body of the answer.
    fn get(&self, header: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends requests. Returns whether each was admitted.
    fn admitted(&self, header: &str, requests: usize) -> Vec<bool> {
        (0..requests).map(|_| self.get(header).starts_with("HTTP/1.1 200")).collect()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asserts that the server admits a burst of three and then denies.
fn limits(name: &str) {
    let example = Example::start(name);
    assert_eq!(example.admitted("", 4), [true, true, true, false]);
    let answer = example.get("");
    assert!(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{answer}");
    // Header names are case-insensitive, and frameworks differ in their case.
    let head = answer.to_ascii_lowercase();
    assert!(head.contains("\r\nretry-after: ") && answer.contains(r#""violated-policies":["default"]"#), "{answer}");
}

macro_rules! limits {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                limits(stringify!($name));
            }
        )*
    };
}

limits! { actix_memory axum_memory ntex_memory poem_memory rocket_memory salvo_memory warp_memory }

#[test]
fn axum_redis_limits_each_user() {
    let example = Example::start("axum_redis");
    let (alice, bob) = ("authorization: Bearer alices-token\r\n", "authorization: Bearer bobs-token\r\n");
    assert_eq!(example.admitted(alice, 5), [true, true, true, true, false]);
    assert_eq!(example.admitted(bob, 3), [true, true, false]);
    // A request without a valid token is limited by its address.
    assert_eq!(example.admitted("", 1), [true]);
    assert_eq!(example.admitted("authorization: Bearer made-up\r\n", 2), [true, false]);
    let answer = example.get(bob);
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("\r\n\r\nSlow down, please: "), "{answer}");
    // A request denied by one limit takes nothing from the other.
    assert!(answer.contains(r#""daily";r=998;"#), "{answer}");
}
