//! The chat in two browsers.

use tidegate_servers::browser::{Browser, ENTER};

use super::Example;

/// Opens the page of a user in a room.
fn open(example: &Example, name: &str, room: &str) -> Browser {
    let browser = Browser::open(&url(example, name, room));
    browser.wait_for("!document.getElementById('chat').hidden");
    browser
}

fn url(example: &Example, name: &str, room: &str) -> String {
    format!("http://{}/?name={name}&room={room}", example.address)
}

/// Types a message. The page puts the focus into the input field.
fn say(browser: &Browser, text: &str) {
    browser.press(text.chars().chain([ENTER]));
}

/// The messages that a page shows, as one text: `ann: hello|bob: hi`.
const MESSAGES: &str = "[...document.querySelectorAll('#log li:not(.news)')]\
    .map((item) => `${item.firstChild.textContent}: ${item.lastChild.textContent}`).join('|')";

fn sees(browser: &Browser, messages: &str) {
    browser.wait_for(&format!("{MESSAGES} === {messages:?}"));
}

#[test]
fn members_of_a_room_see_its_messages() {
    let example = Example::start("chat");
    let (ann, bob) = (open(&example, "ann", "tea"), open(&example, "bob", "tea"));
    ann.wait_for("document.getElementById('log').textContent === 'bob has come'");
    assert_eq!(ann.text("who"), "2 people here, and you are ann");
    say(&ann, "hello <b>bob</b>");
    sees(&bob, "ann: hello <b>bob</b>");
    say(&bob, "hi");
    sees(&ann, "ann: hello <b>bob</b>|bob: hi");

    bob.navigate(&url(&example, "bob", "coffee"));
    ann.wait_for("document.getElementById('log').textContent.endsWith('bob has gone')");
    assert_eq!(ann.text("who"), "only you here, and you are ann");
    say(&ann, "alone");
    sees(&ann, "ann: hello <b>bob</b>|bob: hi|ann: alone");
    // A message from before the join would have arrived first.
    bob.wait_for("!document.getElementById('chat').hidden");
    say(&bob, "who is here?");
    sees(&bob, "bob: who is here?");
    for browser in [&ann, &bob] {
        assert_eq!(browser.evaluate("window.violations.join()"), "", "the page needs no more than its policy");
    }
}

/// Records the limits that the page shows at every change, because the countdown may be over before a slow machine
/// looks.
const WATCH: &str = "(() => {
    const text = (selector) => document.querySelector(selector).textContent;
    window.seen = [];
    new MutationObserver(() => window.seen.push({
        limited: !document.getElementById('limited').hidden, says: document.getElementById('limited').innerText,
        button: text('#say'), left: text('#limit-user dd'),
    })).observe(document.getElementById('chat'), { subtree: true, childList: true, attributes: true });
})()";

#[test]
fn flooding_user_sees_when_to_continue() {
    let example = Example::start("chat");
    let (ann, bob) = (open(&example, "ann", "tea"), open(&example, "bob", "tea"));
    ann.wait_for("document.querySelector('#limit-user dd')");
    ann.evaluate(WATCH);
    // Faster than a person types, and more than the five that a user has at once.
    let sent = 9;
    ann.evaluate(&format!(
        "(() => {{ for (let number = 1; number <= {sent}; number++) {{
            document.getElementById('text').value = `message ${{number}}`;
            document.getElementById('send').requestSubmit();
        }} }})()"
    ));
    // The page shows the quota after the last message, plus the refill since: one or two more in a slow browser.
    let limited = ann.wait_for("window.seen.find(({ limited, left }) => limited && parseInt(left) < 3)");
    let says = limited["says"].as_str().unwrap();
    assert!(says.contains("was not sent") && says.contains("Try again in "), "{limited}");
    assert!(limited["button"].as_str().unwrap().ends_with(" s"), "the countdown: {limited}");

    // The message takes from the quota of the room, which all members see.
    bob.wait_for("limits.get('room').remaining < 20");
    // After the countdown, the unsent text can be sent without typing it again.
    ann.wait_for("document.getElementById('limited').hidden && !document.getElementById('say').disabled");
    let not_sent = ann.evaluate("document.getElementById('text').value");
    assert_eq!(not_sent, format!("message {sent}"));
    let before = ann.evaluate(MESSAGES);
    let before = before.as_str().unwrap();
    let delivered = before.split('|').count();
    assert!((4..sent).contains(&delivered), "one was for joining, and time adds some: {before}");
    say(&ann, "");
    let after = format!("{before}|ann: message {sent}");
    sees(&ann, &after);
    sees(&bob, &after);
}
