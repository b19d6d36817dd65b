//! Pages of other sites in a browser, over HTTP without TLS: there a browser leaves out of a GET which site sends it.
//!
//! Names under `test` point at this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::json;
use tidegate_servers::browser::Browser;

use super::{LIMITS, Program, post_limit, url, write_file};

fn start_server(name: &str, arguments: &[&str]) -> (Program, u16) {
    let config = write_file(&format!("cross-site-{name}.toml"), LIMITS);
    let program = Program::start(&[&["--config", &config], arguments].concat());
    let port = program.http.expect("it listens for HTTP").port();
    (program, port)
}

/// How many units of `api` a key has left.
fn left(program: &Program, key: &str) -> u64 {
    let request = json!({ "limit": "api", "key": key });
    let response = reqwest::blocking::Client::new().post(url(program, "/v1/check")).json(&request).send();
    let decision: serde_json::Value = response.expect("asked").json().expect("a decision");
    decision["remaining"].as_u64().expect("a number")
}

/// Opens an empty page of another site, which is up as long as the test.
fn open_other_site() -> Browser {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            let head = stream.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            if head.count() > 0 {
                let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\nconnection: close\r\n\r\n<!doctype html>";
                // The browser may have gone.
                let _ = stream.get_mut().write_all(page.as_bytes());
            }
        }
    });
    Browser::open(&format!("http://evil.test:{port}/"))
}

/// Shows an image in the page, and waits until the browser has its response.
fn load_image(browser: &Browser, source: &str) {
    let insert = format!(
        "(() => {{ const image = new Image(); window.answered = false; \
         image.onload = image.onerror = () => window.answered = true; image.src = '{source}'; \
         document.documentElement.append(image); return 1; }})()"
    );
    browser.evaluate(&insert);
    browser.wait_for("window.answered");
}

#[test]
fn image_on_a_page_of_another_site_takes_nothing() {
    let (default, default_port) = start_server("image", &[]);
    let (named, named_port) = start_server("image-named", &["--allowed-host", "tidegate.test"]);
    let browser = open_other_site();
    for (program, port) in [(&default, default_port), (&named, named_port)] {
        for host in ["tidegate.test", "evil.test", "127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"] {
            load_image(&browser, &format!("http://{host}:{port}/v1/auth?limit=api&key={host}"));
            assert_eq!(left(program, host), 5, "{host}");
        }
    }
    // A server that the browser reaches by that name: it answers its own page.
    browser.navigate(&format!("http://tidegate.test:{named_port}/"));
    browser.wait_for("!document.getElementById('content').hidden");
}

/// Sends a request from the page, and returns the status of its response.
fn fetch(browser: &Browser, method: &str, path: &str, body: &str) -> u64 {
    let body = if body.is_empty() { "undefined".to_owned() } else { format!("'{body}'") };
    browser.evaluate(&format!(
        "(window.answered = null, fetch('{path}', {{ method: '{method}', body: {body} }})\
         .then((response) => window.answered = response.status), 1)"
    ));
    browser.wait_for("window.answered").as_u64().expect("a status")
}

/// To the browser, the page is the server's own: the name points at the server.
#[test]
fn page_whose_name_is_made_to_point_at_the_server_reads_and_changes_nothing() {
    const ALL: [(&str, &str, &str); 6] = [
        ("POST", "/v1/limit", r#"{"limit":"api","key":"u"}"#),
        ("POST", "/v1/reset", r#"{"limit":"api","key":"u"}"#),
        ("GET", "/v1/auth?limit=api&key=u", ""),
        ("GET", "/v1/limits", ""),
        ("GET", "/metrics", ""),
        ("GET", "/dashboard/data", ""),
    ];
    let (program, port) = start_server("rebinding", &[]);
    post_limit(&program, "api", "u");
    let browser = Browser::open(&format!("http://evil.test:{port}/"));
    for (method, path, body) in ALL {
        assert_eq!(fetch(&browser, method, path, body), 421, "{method} {path}");
    }
    assert_eq!(left(&program, "u"), 4);
    // The same page of a server that is known by this name.
    let (_chosen, port) = start_server("rebinding-named", &["--allowed-host", "evil.test"]);
    browser.navigate(&format!("http://evil.test:{port}/"));
    for (method, path, body) in ALL {
        let status = fetch(&browser, method, path, body);
        // A GET of its own page does not tell its sender, either.
        assert_eq!(status, if path.starts_with("/v1/auth") { 403 } else { 200 }, "{method} {path}");
    }
}
