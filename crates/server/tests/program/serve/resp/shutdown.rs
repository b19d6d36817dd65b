//! The end of the server.

use std::io::{Read, Write};

use super::{command, connect, exchange, five, rest, serve};

#[test]
fn every_command_sent_before_shutdown_is_answered() {
    let program = serve(&[]);
    let mut idle = connect(&program);
    exchange(&mut idle, "PING\r\n", "+PONG\r\n");
    let mut busy = connect(&program);
    let count = 5_000;
    busy.write_all(&command(&["CL.THROTTLE", "u1", "9999", "1", "86400"]).repeat(count)).expect("sent");
    // All of it has arrived once the first is answered: it was one write, over loopback.
    let mut first = vec![0; five([0, 10_000, 9_999, -1, 86_400]).len()];
    busy.read_exact(&mut first).expect("a reply");
    assert_eq!(String::from_utf8_lossy(&first), five([0, 10_000, 9_999, -1, 86_400]));
    program.signal("TERM");
    assert_eq!(rest(&mut busy).matches("*5\r\n:0\r\n").count(), count - 1);
    assert_eq!(rest(&mut idle), "");
    drop((busy, idle));
    let (status, log) = program.ended();
    assert!(status.success(), "{status}");
    assert!(!log.iter().any(|line| line.contains("not everything was finished")), "{log:?}");
}
