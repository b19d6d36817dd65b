//! Tests of pipelines on stores that do I/O.

use tidegate::{StoreError, StoreErrorKind};
use tidegate_testkit::{Faults, FaultyStore};
use tokio::io::AsyncWriteExt;

use super::{TestServer, expect, five_integers, read_to_end};

fn server_with_faults() -> (TestServer, Faults) {
    let mut faults = None;
    let server = TestServer::start_on(
        |memory| {
            let store = FaultyStore::new(memory);
            faults = Some(store.faults());
            store
        },
        None,
    );
    (server, faults.expect("made"))
}

#[tokio::test]
async fn a_pipeline_is_one_batch_and_keeps_its_order() {
    let (server, faults) = server_with_faults();
    faults.delay_responses();
    let (mut client, served) = server.connect(1 << 20);
    let pipeline = "TG.LIMIT login u1\r\nTG.LIMIT login u1\r\nCL.THROTTLE u1 15 30 60\r\nCL.THROTTLE u1 0 30 60\r\n\
                    TG.RESET login u1\r\nTG.LIMIT login u1\r\nTG.LIMIT nope u1\r\nTG.LIMIT api u1 x\r\nPING\r\nTG.LIMIT api u1\r\n";
    client.write_all(pipeline.as_bytes()).await.unwrap();
    // One batch for each run of limits with or without an inline quota, up to the first error; the last is the one after PING.
    for batch in 1..=4 {
        while faults.held_calls() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(faults.calls().apply_each, batch);
        faults.release();
    }
    let minute = 40_000;
    let mut expected = five_integers([1, 1, 0, -1, minute]) + &five_integers([0, 1, 0, minute, minute]);
    // Another quota for the same key keeps its usage.
    expected += &(five_integers([0, 16, 15, -1, 2]) + &five_integers([1, 1, 0, 2, 2]));
    expected += &(five_integers([1, 1, 1, -1, 0]) + &five_integers([1, 1, 0, -1, minute]));
    expected += "-ERR unknown limit 'nope'\r\n-ERR cost is not a whole number from 1 on: found 'x'\r\n+PONG\r\n";
    expected += &five_integers([1, 20, 19, -1, 100]);
    expect(&mut client, &expected).await;
    client.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut client).await, "");
    served.await.unwrap();
}

#[tokio::test]
async fn a_broken_store_is_an_error_for_a_closed_limit() {
    let (server, faults) = server_with_faults();
    faults.fail(StoreError::new(StoreErrorKind::Unavailable, "redis://secret@10.0.0.1\r\n is down"));
    let expected = "-UNAVAILABLE the store cannot be asked, and the limit admits nobody without it\r\n+PONG\r\n";
    assert_eq!(server.replies("TG.LIMIT login u1\r\nPING\r\n").await, expected);
}

#[tokio::test]
async fn a_limit_with_a_commands_name_does_not_shadow_the_command() {
    let (server, _faults) = server_with_faults();
    let unknown = "-ERR unknown limit 'CL.THROTTLE'\r\n";
    let sent = "TG.LIMIT CL.THROTTLE u1\r\nCL.THROTTLE u1 15 30 60\r\nTG.LIMIT CL.THROTTLE u1\r\n";
    assert_eq!(server.replies(sent).await, format!("{unknown}{}{unknown}", five_integers([0, 16, 15, -1, 2])));
}
