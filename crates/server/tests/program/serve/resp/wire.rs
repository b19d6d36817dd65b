//! Commands and replies over a socket.

use std::io::Write;

use super::{command, connect, exchange, expect, five, replies, serve};

#[test]
fn commands_are_answered_in_order() {
    let program = serve(&[]);
    let mut stream = connect(&program);
    let pipeline = [
        command(&["CL.THROTTLE", "user123", "15", "30", "60"]),
        command(&["THROTTLE", "user123", "10", "10", "60"]),
        command(&["PING"]),
        command(&["TG.CHECK", "api", "user123"]),
        b"ping typed\r\n".to_vec(),
    ];
    let expected = [
        five([0, 16, 15, -1, 2]),
        five([1, 10, 9, 6, 0]),
        "+PONG\r\n".to_owned(),
        five([1, 20, 20, -1, 0]),
        "$5\r\ntyped\r\n".to_owned(),
    ];
    exchange(&mut stream, pipeline.concat(), &expected.concat());
    // However it arrives.
    for byte in command(&["ECHO", "byte by byte"]) {
        stream.write_all(&[byte]).expect("sent");
    }
    expect(&mut stream, "$12\r\nbyte by byte\r\n");
    let (status, _) = program.stop();
    assert!(status.success(), "{status}");
}

#[test]
fn concurrent_clients_never_exceed_the_quota() {
    let program = serve(&[]);
    let allowed: usize = std::thread::scope(|scope| {
        let ask = |_| {
            scope.spawn(|| {
                let pipeline = command(&["CL.THROTTLE", "shared", "99", "1", "86400"]).repeat(100);
                replies(&program, pipeline).matches("*5\r\n:0\r\n").count()
            })
        };
        let clients: Vec<_> = (0..10).map(ask).collect();
        clients.into_iter().map(|client| client.join().expect("answered")).sum()
    });
    assert_eq!(allowed, 100);
}
