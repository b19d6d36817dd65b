//! Authentication with the token.

use std::io::Write;

use super::{connect, exchange, expect, read_to_end, replies};
use crate::serve::program::Program;

const TOKEN: &str = "0123456789abcdef";
const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

fn start_server() -> Program {
    Program::start_with_env(&["--http", "off", "--grpc", "off"], &[("TIDEGATE_TOKEN", TOKEN)])
}

#[test]
fn no_command_is_answered_without_the_token() {
    let program = start_server();
    let commands = "PING\r\nTG.LIMIT api u1\r\nCL.THROTTLE u1 15 30 60\r\nINFO\r\nCOMMAND\r\nCLIENT ID\r\nNOPE\r\n";
    assert_eq!(replies(&program, commands), NOAUTH.repeat(7));
    assert!(replies(&program, "HELLO 3\r\n").starts_with("-NOAUTH HELLO must be called with the client already"));
    assert_eq!(replies(&program, "RESET\r\nQUIT\r\n"), "+RESET\r\n+OK\r\n");

    let mut stream = connect(&program);
    exchange(&mut stream, "AUTH wrong\r\nPING\r\n", &format!("{WRONG}{NOAUTH}"));
    exchange(&mut stream, format!("AUTH {TOKEN}\r\nPING\r\n"), "+OK\r\n+PONG\r\n");
    exchange(&mut stream, format!("RESET\r\nPING\r\nAUTH anyone {TOKEN}\r\nPING\r\n"), "+RESET\r\n");
    expect(&mut stream, &format!("{NOAUTH}+OK\r\n+PONG\r\n"));

    let hello = replies(&program, format!("HELLO 3 AUTH default {TOKEN} SETNAME me\r\nCLIENT GETNAME\r\n"));
    assert!(hello.starts_with("%7\r\n") && hello.ends_with("$2\r\nme\r\n"), "{hello}");
    let hello = replies(&program, "HELLO 3 AUTH default wrong\r\nPING\r\n");
    assert_eq!(hello, format!("{WRONG}{NOAUTH}"));
}

#[test]
fn a_few_wrong_tokens_close_the_connection() {
    let program = start_server();
    let guesses = "AUTH guess\r\n".repeat(100);
    let mut stream = connect(&program);
    stream.write_all(guesses.as_bytes()).expect("sent");
    assert_eq!(read_to_end(&mut stream), WRONG.repeat(5));
}

#[test]
fn unauthenticated_commands_are_short() {
    let program = start_server();
    let too_many = replies(&program, "*11\r\n");
    assert_eq!(too_many, "-ERR Protocol error: invalid multibulk length\r\n");
    let too_long = replies(&program, "*2\r\n$4\r\nAUTH\r\n$1025\r\n");
    assert_eq!(too_long, "-ERR Protocol error: invalid bulk length\r\n");
    // After AUTH, larger commands are accepted, even in the same write.
    let known = format!("AUTH {TOKEN}\r\n*2\r\n$4\r\nECHO\r\n$2000\r\n{}\r\n", "x".repeat(2_000));
    assert_eq!(replies(&program, known), format!("+OK\r\n$2000\r\n{}\r\n", "x".repeat(2_000)));
}
