//! Timeouts and the shutdown, in paused time.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::{SECOND, TOKEN, TestServer, expect, read_to_end};

#[tokio::test(start_paused = true)]
async fn an_idle_client_stays_connected() {
    let server = TestServer::new();
    let (mut client, served) = server.connect(1 << 10);
    client.write_all(b"PING\r\n").await.unwrap();
    expect(&mut client, "+PONG\r\n").await;
    tokio::time::sleep(SECOND * 1_000_000).await;
    client.write_all(b"PING\r\n").await.unwrap();
    expect(&mut client, "+PONG\r\n").await;
    assert!(!served.is_finished());
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_command_times_out() {
    let server = TestServer::new();
    let (mut client, served) = server.connect(1 << 10);
    let start = Instant::now();
    // A byte now and then does not help.
    client.write_all(b"PING\r\n*1").await.unwrap();
    expect(&mut client, "+PONG\r\n").await;
    for byte in [b"\r", b"\n", b"$", b"4"] {
        tokio::time::sleep(SECOND * 5).await;
        client.write_all(byte).await.unwrap();
    }
    assert_eq!(read_to_end(&mut client).await, "");
    assert_eq!(start.elapsed().as_secs(), 30);
    drop(client);
    served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_paused_and_then_closed() {
    let server = TestServer::new();
    let (mut client, served) = server.connect(1 << 10);
    let start = Instant::now();
    let pings = b"PING\r\n".repeat(100_000);
    // It stops taking commands long before all are sent, because it cannot get rid of the replies.
    let sent = timeout(SECOND * 10, client.write_all(&pings)).await;
    assert!(sent.is_err(), "somewhere there is memory for 100,000 replies");
    served.await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(server.door.connected(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_must_authenticate_soon() {
    let server = TestServer::with_token();
    let (mut client, served) = server.connect(1 << 10);
    let start = Instant::now();
    for _ in 0..4 {
        client.write_all(b"PING\r\n").await.unwrap();
        expect(&mut client, "-NOAUTH Authentication required.\r\n").await;
        tokio::time::sleep(SECOND * 2).await;
    }
    assert_eq!(read_to_end(&mut client).await, "");
    assert_eq!(start.elapsed().as_secs(), 10);
    drop(client);
    served.await.unwrap();

    // Also one whose commands never end.
    let (mut client, served) = server.connect(1 << 20);
    client.write_all(b"PING\r\n").await.unwrap();
    expect(&mut client, "-NOAUTH Authentication required.\r\n").await;
    client.write_all(&b"PING\r\n".repeat(20_000)).await.unwrap();
    tokio::time::advance(SECOND * 10).await;
    let answers = read_to_end(&mut client).await.matches("-NOAUTH").count();
    assert!(answers < 10_000, "{answers}");
    served.await.unwrap();

    // An authenticated client stays, and is unauthenticated after RESET.
    let (mut client, _served) = server.connect(1 << 10);
    client.write_all(format!("AUTH {TOKEN}\r\n").as_bytes()).await.unwrap();
    expect(&mut client, "+OK\r\n").await;
    tokio::time::sleep(SECOND * 1_000).await;
    client.write_all(b"PING\r\nRESET\r\nPING\r\n").await.unwrap();
    expect(&mut client, "+PONG\r\n+RESET\r\n-NOAUTH Authentication required.\r\n").await;
    let start = Instant::now();
    assert_eq!(read_to_end(&mut client).await, "");
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn commands_sent_before_shutdown_are_answered() {
    let server = TestServer::new();
    let (mut busy, busy_served) = server.connect(1 << 20);
    let (mut idle, idle_served) = server.connect(1 << 20);
    idle.write_all(b"PING\r\n").await.unwrap();
    expect(&mut idle, "+PONG\r\n").await;
    // More than is read at once, and the beginning of a command that will never be whole.
    let count = 20_000;
    busy.write_all(&[b"PING\r\n".repeat(count), b"PIN".to_vec()].concat()).await.unwrap();
    server.ending.trigger();
    assert_eq!(read_to_end(&mut busy).await, "+PONG\r\n".repeat(count));
    assert_eq!(read_to_end(&mut idle).await, "");
    drop((busy, idle));
    busy_served.await.unwrap();
    idle_served.await.unwrap();
}

/// Commands that have arrived but were not read when the shutdown starts count as sent before it.
#[tokio::test(start_paused = true)]
async fn a_command_in_flight_at_shutdown_is_answered() {
    let server = TestServer::new();
    let (mut client, _served) = server.connect(1 << 10);
    client.write_all(b"PING\r\n").await.unwrap();
    expect(&mut client, "+PONG\r\n").await;
    server.ending.trigger();
    tokio::task::yield_now().await;
    client.write_all(b"PING\r\n").await.unwrap();
    assert_eq!(read_to_end(&mut client).await, "+PONG\r\n");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_stops_does_not_delay_the_shutdown() {
    let server = TestServer::new();
    let (client, served) = server.connect(1 << 10);
    let (mut reader, mut writer) = tokio::io::split(client);
    let writing = tokio::spawn(async move {
        while writer.write_all(b"PING\r\n").await.is_ok() {
            tokio::time::sleep(SECOND / 1_000).await;
        }
    });
    let mut reply = [0; 7];
    reader.read_exact(&mut reply).await.unwrap();
    server.ending.trigger();
    let start = Instant::now();
    let mut replies = Vec::new();
    reader.read_to_end(&mut replies).await.unwrap();
    // Those that were read before are answered whole.
    assert_eq!(replies.len() % 7, 0);
    served.await.unwrap();
    assert!(start.elapsed() < SECOND * 2, "{:?}", start.elapsed());
    writing.await.unwrap();
}
