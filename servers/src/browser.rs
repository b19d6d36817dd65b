//! A browser under the control of WebDriver, a protocol of JSON over HTTP.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reqwest::blocking::Client;
use serde_json::{Value, json};

use crate::required_env;

/// The flags of a browser that runs without a screen and calls no other service.
const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    // A container has little of it, and a page that needs more crashes.
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // Sites of tests.
    "--host-resolver-rules=MAP *.test 127.0.0.1",
];

/// The key Tab, for [`Browser::press`].
pub const TAB: char = '\u{E004}';
/// The key Enter, for [`Browser::press`].
pub const ENTER: char = '\u{E007}';

/// A browser with one page. Dropping it ends it.
pub struct Browser {
    client: Client,
    session: String,
    driver: Child,
}

impl Browser {
    /// Opens a browser with this page.
    pub fn open(url: &str) -> Self {
        let mut command = Command::new(required_env("TIDEGATE_CHROMEDRIVER"));
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = command.spawn().expect("chromedriver starts");
        let mut lines = BufReader::new(driver.stdout.take().expect("piped"));
        let port = read_port(&mut lines);
        // Its output must be read, or it blocks.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let client = Client::builder().timeout(Duration::from_secs(120)).build().expect("a client");
        let options = json!({ "binary": required_env("TIDEGATE_CHROMIUM"), "args": FLAGS });
        let wanted =
            json!({ "browserName": "chrome", "goog:chromeOptions": options, "timeouts": { "script": 60_000 } });
        let mut browser = Browser { client, session: format!("http://127.0.0.1:{port}/session"), driver };
        let session = browser.post("", json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session += &format!("/{}", session["sessionId"].as_str().expect("a session"));
        let listen = "window.violations = []; document.addEventListener('securitypolicyviolation', \
                      (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));";
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", json!({ "source": listen }));
        browser.navigate(url);
        browser
    }

    /// Opens another page.
    pub fn navigate(&self, url: &str) {
        self.post("/url", json!({ "url": url }));
    }

    /// Evaluates an expression in the page.
    pub fn evaluate(&self, expression: &str) -> Value {
        self.post("/execute/sync", json!({ "script": format!("return ({expression});"), "args": [] }))
    }

    /// Returns the text of an element.
    pub fn text(&self, id: &str) -> String {
        let found = self.evaluate(&format!("document.getElementById('{id}').textContent"));
        found.as_str().expect("a text").to_owned()
    }

    /// Waits until an expression is truthy in the page, and returns its value.
    pub fn wait_for(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[0];
             const look = () => {{ const found = ({expression}); if (found) done(found); else setTimeout(look, 20); }};
             look();"
        );
        let answer = self.send("/execute/async", json!({ "script": script, "args": [] }));
        answer.unwrap_or_else(|error| {
            panic!("it never came true: {expression}\n{error}\n{}", self.evaluate("document.body.innerText"))
        })
    }

    /// Presses keys, one after the other, at the focus.
    pub fn press(&self, keys: impl IntoIterator<Item = char>) {
        let press = |key: char| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }));
        let actions: Vec<Value> = keys.into_iter().flat_map(press).collect();
        self.post("/actions", json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }));
    }

    /// Presses Tab until that element has the focus. Asserts that the focus is visible at every step.
    pub fn tab_to(&self, id: &str) {
        for _ in 0..200 {
            self.press([TAB]);
            let [at, outline] = ["document.activeElement.id", "getComputedStyle(document.activeElement).outlineStyle"]
                .map(|expression| self.evaluate(expression));
            // Between the last and the first element, the focus is outside of the page.
            let in_page = self.evaluate("document.activeElement !== document.body") == true;
            assert!(!in_page || outline != "none", "the focus on {at} is not visible");
            if at == id {
                return;
            }
        }
        panic!("{id} cannot be reached by Tab");
    }

    /// Sets the system's preferred color scheme, `light` or `dark`.
    pub fn set_color_scheme(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.post("/goog/cdp/execute", json!({ "cmd": command, "params": parameters }))
    }

    fn post(&self, path: &str, body: Value) -> Value {
        self.send(path, body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn send(&self, path: &str, body: Value) -> Result<Value, Value> {
        let response =
            self.client.post(format!("{}{path}", self.session)).json(&body).send().expect("chromedriver answers");
        let good = response.status().is_success();
        let mut answer: Value = response.json().expect("JSON");
        if good { Ok(answer["value"].take()) } else { Err(answer["value"]["message"].take()) }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The end of the session closes the browser. Without a session there is no browser.
        let _ = self.client.delete(&self.session).send();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Reads the port that the driver has chosen.
fn read_port(lines: &mut impl BufRead) -> u16 {
    let mut output = String::new();
    while lines.read_line(&mut output).expect("text") > 0 {
        let last = output.lines().last().unwrap_or_default();
        if let Some((_, port)) = last.split_once("started successfully on port ") {
            return port.trim_end_matches('.').parse().expect("a port");
        }
    }
    panic!("chromedriver does not start:\n{output}")
}
