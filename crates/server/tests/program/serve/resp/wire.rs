//! Commands and replies over a socket, also during the shutdown.

use std::io::{Read, Write};

use super::{command, connect, exchange, expect, five_integers, read_to_end, replies, start_server};

#[test]
fn commands_are_answered_in_order() {
    let program = start_server(&[]);
    let mut stream = connect(&program);
    let pipeline = [
        command(&["CL.THROTTLE", "user123", "15", "30", "60"]),
        command(&["THROTTLE", "user123", "10", "10", "60"]),
        command(&["PING"]),
        command(&["TG.CHECK", "api", "user123"]),
        b"ping typed\r\n".to_vec(),
    ];
    let expected = [
        five_integers([0, 16, 15, -1, 2]),
        five_integers([1, 10, 9, 6, 0]),
        "+PONG\r\n".to_owned(),
        five_integers([1, 20, 20, -1, 0]),
        "$5\r\ntyped\r\n".to_owned(),
    ];
    exchange(&mut stream, pipeline.concat(), &expected.concat());
    // The command arrives byte by byte.
    for byte in command(&["ECHO", "byte by byte"]) {
        stream.write_all(&[byte]).expect("sent");
    }
    expect(&mut stream, "$12\r\nbyte by byte\r\n");
    let (status, _) = program.stop();
    assert!(status.success(), "{status}");
}

#[test]
fn concurrent_clients_never_exceed_the_quota() {
    let program = start_server(&[]);
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

#[test]
fn every_command_sent_before_shutdown_is_answered() {
    let program = start_server(&[]);
    let mut idle = connect(&program);
    exchange(&mut idle, "PING\r\n", "+PONG\r\n");
    let mut busy = connect(&program);
    let count = 5_000;
    busy.write_all(&command(&["CL.THROTTLE", "u1", "9999", "1", "86400"]).repeat(count)).expect("sent");
    // All of it has arrived with the first reply, because it was one write over loopback.
    let mut first = vec![0; five_integers([0, 10_000, 9_999, -1, 86_400]).len()];
    busy.read_exact(&mut first).expect("a reply");
    assert_eq!(String::from_utf8_lossy(&first), five_integers([0, 10_000, 9_999, -1, 86_400]));
    program.signal("TERM");
    assert_eq!(read_to_end(&mut busy).matches("*5\r\n:0\r\n").count(), count - 1);
    assert_eq!(read_to_end(&mut idle), "");
    drop((busy, idle));
    let (status, log) = program.wait_for_exit();
    assert!(status.success(), "{status}");
    assert!(!log.iter().any(|line| line.contains("not everything was finished")), "{log:?}");
}
