//! workerd stopped, or killed, and started again on the same storage.

use serde_json::json;

use crate::edge::Edge;

#[test]
fn what_was_spent_is_still_spent_after_a_restart() {
    spends_five_and_no_more(|edge| edge.restarted(json!({})));
}

/// What was answered is on the disk by then.
#[test]
fn what_was_spent_is_still_spent_after_a_crash() {
    spends_five_and_no_more(Edge::killed);
}

fn spends_five_and_no_more(ended_and_started: impl Fn(Edge) -> Edge) {
    let mut edge = Edge::start();
    for expected in [4, 3, 2, 1, 0] {
        let (status, decision) = edge.login("u1");
        assert_eq!((status, &decision["remaining"]), (200, &json!(expected)));
        edge = ended_and_started(edge);
    }
    let (_, denied) = edge.login("u1");
    assert_eq!((&denied["allowed"], &denied["reason"]), (&json!(false), &json!("rate")));
    assert_eq!(edge.login("u2").1["remaining"], 4, "somebody else's is not");
}
