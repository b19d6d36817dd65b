//! The dashboard, in a browser.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_servers::browser::{Browser, ENTER};
use tidegate_servers::wait_until;

use super::{LIMITS, Program, get, post_limit, url, write_file};

fn start_server(name: &str, arguments: &[&str]) -> Program {
    let config = write_file(&format!("dashboard-{name}.toml"), LIMITS);
    Program::start(&[&["--config", &config], arguments].concat())
}

/// Opens the dashboard, and returns once it shows data.
fn open_dashboard(program: &Program) -> Browser {
    let browser = Browser::open(&url(program, "/"));
    browser.wait_for("!document.getElementById('content').hidden");
    browser
}

fn post_limit_times(program: &Program, limit: &str, key: &str, times: usize) {
    (0..times).for_each(|_| drop(post_limit(program, limit, key)));
}

#[test]
fn numbers_update_without_a_page_reload() {
    let program = start_server("moves", &[]);
    let browser = open_dashboard(&program);
    browser.evaluate("window.stillHere = true");
    assert_eq!(browser.text("allowed-total"), "0");
    post_limit_times(&program, "api", "u1", 7);
    browser.wait_for("document.getElementById('allowed-total').textContent === '5'");
    browser.wait_for("document.getElementById('denied-total').textContent === '2'");
    browser.wait_for(
        "[...document.querySelectorAll('.limit h3')].some((heading) => heading.textContent.startsWith('api'))",
    );
    browser.wait_for("document.querySelector('#all-chart path.line.denied').getAttribute('d').length > 0");
    assert_eq!(browser.evaluate("window.stillHere"), true);
}

#[test]
fn limits_are_found_by_name() {
    let program = start_server("search", &[]);
    let browser = open_dashboard(&program);
    browser.wait_for("document.querySelectorAll('.limit').length === 2");
    browser.tab_to("search");
    browser.press("LOG".chars());
    browser.wait_for("document.querySelectorAll('.limit').length === 1");
    assert_eq!(browser.evaluate("document.querySelector('.limit h3').firstChild.textContent"), "login");
    assert_eq!(browser.text("limits-count"), "1 of 2 match");
}

/// A client counted by its address differs from a key that looks like that address.
#[test]
fn a_client_without_a_name_is_looked_up_and_reset() {
    let program = start_server("client", &[]);
    let browser = open_dashboard(&program);
    let ask = || reqwest::blocking::get(url(&program, "/v1/auth?limit=api")).expect("an answer").status().as_u16();
    assert!(wait_until(|| ask() == 429));
    browser.wait_for("document.querySelector('#top-rows button') !== null");
    assert!(browser.text("top-rows").starts_with("127.0.0.1"));
    browser.evaluate("document.querySelector('#top-rows button').click()");
    browser.wait_for("document.getElementById('key-answer').textContent.includes('denied')");
    browser.evaluate("document.getElementById('reset').click()");
    browser.evaluate("document.getElementById('confirm-yes').click()");
    browser.wait_for("document.getElementById('key-answer').textContent.includes('good as new')");
    assert_eq!(ask(), 204);
}

#[test]
fn denied_keys_are_listed() {
    let program = start_server("top", &[]);
    let browser = open_dashboard(&program);
    post_limit_times(&program, "api", "noisy", 8);
    post_limit_times(&program, "api", "quiet", 1);
    browser.wait_for("document.getElementById('top-rows').textContent.includes('noisy')");
    assert_eq!(browser.evaluate("document.querySelector('#top-rows td.number').textContent"), "3");
    assert!(!browser.text("top-rows").contains("quiet"));
}

#[test]
fn a_key_is_looked_up_and_reset_by_keyboard_alone() {
    let program = start_server("keyboard", &[]);
    post_limit_times(&program, "api", "u1", 5);
    let browser = open_dashboard(&program);
    browser.tab_to("key-limit");
    browser.press("api".chars());
    browser.tab_to("key-text");
    browser.press("u1".chars().chain([ENTER]));
    browser.wait_for("document.getElementById('key-answer').textContent.includes('would be denied')");
    assert!(browser.text("key-answer").contains("0 of 5"));

    browser.tab_to("reset");
    browser.press([ENTER]);
    browser.wait_for("document.getElementById('confirm').open");
    assert_eq!(browser.evaluate("document.activeElement.id"), "confirm-no", "Enter by mistake resets nothing");
    browser.press([ENTER]);
    browser.wait_for("!document.getElementById('confirm').open");
    assert_eq!(post_limit(&program, "api", "u1")["allowed"], false);

    browser.wait_for("document.activeElement.id === 'reset'");
    browser.press([ENTER]);
    browser.tab_to("confirm-yes");
    browser.press([ENTER]);
    browser.wait_for("document.getElementById('key-answer').textContent.includes('as good as new')");
    assert_eq!(post_limit(&program, "api", "u1")["remaining"], 4);
}

#[test]
fn names_and_keys_that_look_like_html_are_escaped() {
    let name = "<img src=x onerror=window.ran=1>";
    let limits = format!("[limits.\"{name}\"]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1d\"\n");
    let program = Program::start(&["--config", &write_file("dashboard-html.toml", &limits)]);
    let key = "<img src=x onerror=window.ran=2><script>window.ran=3</script>";
    post_limit_times(&program, name, key, 3);
    let browser = open_dashboard(&program);
    browser.wait_for("document.getElementById('top-rows').textContent.includes('<script>')");
    browser.evaluate("document.querySelector('#top-rows button').click()");
    browser.wait_for("document.getElementById('key-answer').textContent.includes('would be denied')");
    browser.evaluate("document.getElementById('reset').click()");
    browser.wait_for("document.getElementById('confirm-text').textContent.includes('onerror')");
    assert_eq!(browser.evaluate("document.querySelectorAll('main img, main script').length"), 0);
    assert!(browser.evaluate("window.ran ?? null").is_null(), "it ran");
    assert_eq!(browser.evaluate("window.violations"), json!([]), "only the policy kept it from running");
}

#[test]
fn dark_mode_follows_the_system_until_toggled() {
    let program = start_server("theme", &[]);
    let browser = open_dashboard(&program);
    let page = || browser.evaluate("getComputedStyle(document.body).backgroundColor");
    browser.set_color_scheme("light");
    let light = page();
    browser.set_color_scheme("dark");
    let dark = page();
    assert_ne!(light, dark);
    browser.evaluate("document.getElementById('theme').click()");
    assert_eq!((browser.text("theme").as_str(), page()), ("Theme: light", light), "against the system");
    browser.navigate(&url(&program, "/"));
    assert_eq!(browser.wait_for("document.getElementById('theme').textContent"), "Theme: light", "and kept");
}

#[test]
fn the_page_loads_only_from_the_server_and_violates_no_policy() {
    let program = start_server("origin", &[]);
    post_limit_times(&program, "api", "u1", 7);
    let browser = open_dashboard(&program);
    browser.wait_for("document.getElementById('denied-total').textContent === '2'");
    // The page may show data before the browser has recorded the request.
    browser.wait_for("performance.getEntriesByType('resource').length >= 4");
    let elsewhere = "performance.getEntriesByType('resource').map((entry) => entry.name)\
                     .filter((name) => new URL(name).origin !== location.origin)";
    assert_eq!(browser.evaluate(elsewhere), json!([]));
    assert_eq!(browser.evaluate("window.violations"), json!([]));
    // A content security policy would report it.
    browser.evaluate(
        "document.body.append(Object.assign(document.createElement('img'), { src: 'http://127.0.0.2/' })) ?? 1",
    );
    browser.wait_for("window.violations.length > 0");
    let script = reqwest::blocking::get(url(&program, "/dashboard.js")).expect("asked");
    assert_eq!(script.headers()["content-type"], "text/javascript; charset=utf-8");
    assert_eq!(script.headers()["x-content-type-options"], "nosniff");
}

#[test]
fn a_limit_with_inline_quota_is_shown_once_it_is_used() {
    let rules = "domain: shop\ndescriptors: [{key: path, rate_limit: {unit: year, requests_per_unit: 2}}]\n";
    let program = Program::start(&["--config", &write_file("dashboard-override.yaml", rules)]);
    let data = || serde_json::from_str::<Value>(&get(&program, "/dashboard/data")).expect("JSON");
    let limits = || data()["limits"].take();
    let before = limits();
    assert_eq!((&before["served"], &before["shown"][0]["name"]), (&json!(1), &json!("shop.path")));
    assert_eq!(before["shown"][0]["quota"]["rate"], 2);
    let request = json!({"domain": "shop", "descriptors": [
        {"entries": [{"key": "path", "value": "/"}], "limit": {"requestsPerUnit": 1, "unit": "YEAR"}},
    ]});
    for status in [200, 429] {
        let response =
            reqwest::blocking::Client::new().post(url(&program, "/json")).json(&request).send().expect("sent");
        assert_eq!(response.status(), status);
    }
    let after = limits();
    let shown = after["shown"].as_array().expect("a list").iter();
    let quotas: BTreeMap<_, _> = shown.map(|one| (one["name"].as_str().expect("a text"), &one["quota"])).collect();
    assert_eq!((&after["served"], quotas["shop.(override)"]), (&json!(2), &Value::Null));
    // A key cannot be looked up without its quota.
    let denied = &data()["top_keys"]["shown"][0];
    assert_eq!((&denied["limit"], &denied["askable"]), (&json!("shop.(override)"), &json!(false)));
    let browser = open_dashboard(&program);
    browser.wait_for("document.getElementById('top-rows').textContent.includes('(override)')");
    assert!(browser.evaluate("document.querySelector('#top-rows button')").is_null());
}

#[test]
fn hidden_keys_never_appear() {
    let program = start_server("hidden", &["--hide-keys"]);
    post_limit_times(&program, "api", "alice@example.com", 7);
    let browser = open_dashboard(&program);
    browser.wait_for("document.getElementById('top-rows').textContent.includes('#')");
    for text in [browser.evaluate("document.documentElement.outerHTML").to_string(), get(&program, "/dashboard/data")] {
        assert!(!text.contains("alice"), "{text}");
    }
}

#[test]
fn the_page_asks_for_the_token_and_shows_nothing_without_it() {
    let token = "0123456789abcdef0123";
    let config = write_file("dashboard-token.toml", LIMITS);
    let program = Program::start_with_env(&["--config", &config], &[("TIDEGATE_TOKEN", token)]);
    let status = reqwest::blocking::get(url(&program, "/dashboard/data")).expect("asked").status();
    assert_eq!(status, 401);
    let browser = Browser::open(&url(&program, "/"));
    browser.wait_for("document.activeElement.id === 'token'");
    assert_eq!(browser.evaluate("document.getElementById('content').hidden"), true);
    // No header can have this token.
    browser.press("wrong…token".chars().chain([ENTER]));
    browser
        .wait_for("document.getElementById('token-wrong').textContent !== '' && document.activeElement.id === 'token'");
    browser
        .evaluate("document.getElementById('token').value = document.getElementById('token-wrong').textContent = ''");
    browser.press("wrong-token-wrong".chars().chain([ENTER]));
    browser
        .wait_for("document.getElementById('token-wrong').textContent !== '' && document.activeElement.id === 'token'");
    browser.press(token.chars().chain([ENTER]));
    browser.wait_for("!document.getElementById('content').hidden");
    browser.tab_to("key-limit");
    browser.press("api".chars());
    browser.tab_to("look-up");
    browser.press([ENTER]);
    browser.wait_for("document.getElementById('key-answer').textContent.includes('5 of 5')");
    assert!(browser.evaluate("localStorage.getItem('tidegate-token')").is_null(), "it is gone with the tab");
}

#[test]
fn a_wrong_config_and_a_lost_server_are_shown() {
    let program = start_server("lost", &[]);
    let browser = open_dashboard(&program);
    write_file("dashboard-lost.toml", "[limits.api]\nrate = \"many\"\n");
    program.signal("HUP");
    browser.wait_for("!document.getElementById('wrong-config').hidden");
    assert!(browser.text("wrong-config-text").contains("limits.api"));
    assert!(wait_until(|| get(&program, "/dashboard/data").contains("\"refused\":1")));
    drop(program);
    browser.wait_for("!document.getElementById('lost').hidden");
    assert_eq!(browser.text("status-text"), "Connection lost");
    browser.wait_for("/ [2-9] seconds old/.test(document.getElementById('lost-since').textContent)");
    let read_out = browser.evaluate("document.querySelector('#lost [role=alert]').textContent");
    assert_eq!(read_out, "The server cannot be reached; trying again every second.", "it is not read out every second");
}
