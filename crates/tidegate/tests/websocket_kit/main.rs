//! Tests of the wire format against ws-kit's own packages: their schemas, validation and error codes.

mod served;

use std::process::Command;

use tidegate_servers::variable;

/// The script makes its own assertions, and prints `ok` at the end.
#[tokio::test(flavor = "multi_thread")]
async fn ws_kit_understands_what_is_sent() {
    let address = served::start().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/websocket_kit/ask.mjs");
    let mut node = Command::new("node");
    node.args([script, &variable("TIDEGATE_WS_KIT"), &format!("ws://{address}/ws")]);
    let output = tokio::task::spawn_blocking(move || node.output().expect("node")).await.unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert_eq!(said, "ok\n");
}
