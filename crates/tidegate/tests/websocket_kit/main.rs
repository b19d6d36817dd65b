//! Tests of the wire format against ws-kit's own packages: their schemas, validation and error codes.

mod server;

use std::process::Command;

use tidegate_servers::required_env;

/// The script makes its own assertions, and prints `ok` at the end.
#[tokio::test(flavor = "multi_thread")]
async fn ws_kit_accepts_every_message() {
    let address = server::start().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/websocket_kit/ask.mjs");
    let mut node = Command::new("node");
    node.args([script, &required_env("TIDEGATE_WS_KIT"), &format!("ws://{address}/ws")]);
    let output = tokio::task::spawn_blocking(move || node.output().expect("node")).await.unwrap();
    let output = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert_eq!(output, "ok\n");
}
