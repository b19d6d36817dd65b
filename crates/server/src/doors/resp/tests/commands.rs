//! Tests of the reply to each command.

use super::{SECOND, TestServer, command, five_integers};

/// Sends each line as words, and compares the replies; a reply of five numbers is written as them.
async fn assert_replies(server: &TestServer, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        let numbers: Vec<i64> = expected.split(' ').map_while(|word| word.parse().ok()).collect();
        let expected = <[i64; 5]>::try_from(numbers).map_or_else(|_| format!("{expected}\r\n"), five_integers);
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        assert_eq!(server.replies(command(&words)).await, expected, "{line}");
    }
}

#[tokio::test]
async fn cl_throttle_replies_like_redis_cell() {
    let server = TestServer::new();
    assert_replies(
        &server,
        &[
            ("CL.THROTTLE user123 15 30 60", "0 16 15 -1 2"),
            ("cl.throttle user123 15 30 60 5", "0 16 10 -1 12"),
            ("CL.THROTTLE user123 15 30 60 0", "0 16 10 -1 12"),
            ("CL.THROTTLE user123 15 30 60 11", "1 16 10 2 12"),
            ("CL.THROTTLE user123 15 30 60 10", "0 16 0 -1 32"),
            ("CL.THROTTLE user123 15 30 60", "1 16 0 2 32"),
            ("CL.THROTTLE user123 15 30 60 0", "0 16 0 -1 32"),
            ("CL.THROTTLE user123 15 30 60 17", "1 16 0 -1 32"),
            ("CL.THROTTLE one 0 1 1", "0 1 0 -1 1"),
            ("CL.THROTTLE one 0 1 1", "1 1 0 1 1"),
            ("CL.THROTTLE mallory 15 30 60", "1 16 0 -1 0"),
            ("CL.THROTTLE mallory 15 30 60 0", "1 16 0 -1 0"),
        ],
    )
    .await;
    server.clock.advance(SECOND / 2);
    // Half a second has passed of two: rounded up.
    assert_replies(&server, &[("CL.THROTTLE user123 15 30 60", "1 16 0 2 32")]).await;
    server.clock.advance(SECOND);
    assert_replies(&server, &[("CL.THROTTLE user123 15 30 60", "1 16 0 1 31")]).await;
    server.clock.advance(SECOND / 2);
    assert_replies(&server, &[("CL.THROTTLE user123 15 30 60", "0 16 0 -1 32")]).await;
}

#[tokio::test]
async fn throttle_replies_like_throttlecrab_with_its_own_budget() {
    let server = TestServer::new();
    assert_replies(
        &server,
        &[
            ("CL.THROTTLE u1 9 10 60 10", "0 10 0 -1 60"),
            ("THROTTLE u1 10 10 60", "1 10 9 6 0"),
            ("throttle u1 10 10 60 9", "1 10 0 60 0"),
            ("THROTTLE u1 10 10 60", "0 10 0 60 6"),
            ("THROTTLE u1 10 10 60 0", "1 10 0 60 0"),
            ("THROTTLE u1 10 10 60 11", "0 10 0 60 -1"),
        ],
    )
    .await;
}

#[tokio::test]
async fn tg_commands_use_the_limits_of_the_config() {
    let server = TestServer::new();
    assert_replies(
        &server,
        &[
            ("TG.LIMIT api u1", "1 20 19 -1 100"),
            ("tg.limit api u1 9", "1 20 10 -1 1000"),
            ("TG.CHECK api u1", "1 20 10 -1 1000"),
            ("TG.CHECK api u1 11", "0 20 10 100 1000"),
            ("TG.LIMIT api u1 21", "0 20 10 -1 1000"),
            ("TG.CHECK api u2", "1 20 20 -1 0"),
            ("TG.RESET api u1", "1 20 20 -1 0"),
            ("TG.CHECK api u1", "1 20 20 -1 0"),
            ("TG.LIMIT api mallory", "0 20 0 -1 0"),
            ("TG.LIMIT trial u1", "1 1 0 -1 60000"),
            ("TG.LIMIT trial u1", "1 1 0 -1 60000"),
        ],
    )
    .await;
    server.replies("TG.LIMIT api u3 20\r\n").await;
    server.clock.advance(SECOND / 10_000);
    // Times are rounded up to a millisecond.
    assert_replies(&server, &[("TG.LIMIT api u3", "0 20 0 100 2000")]).await;
}

#[tokio::test]
async fn a_key_may_have_any_bytes() {
    let server = TestServer::new();
    let ask = |key: &[u8]| command(&[b"TG.LIMIT", b"login", key]);
    let keys: [&[u8]; 8] = [b"", b"a", b"caf\xe9", "caf\u{e9}".as_bytes(), b"\xfe", b"\xff", b"%a|\xff", b"a\r\nb"];
    for key in keys {
        assert!(server.replies(ask(key)).await.starts_with("*5\r\n:1\r\n"), "{} is another's", key.escape_ascii());
        assert!(server.replies(ask(key)).await.starts_with("*5\r\n:0\r\n"), "{} is not found", key.escape_ascii());
    }
    assert!(server.replies(ask(&[b'x'; 4096])).await.starts_with("*5\r\n:1\r\n"));
    let expected = "-ERR the key is too long: found 4097 bytes, expected at most 4096\r\n";
    assert_eq!(server.replies(ask(&[b'x'; 4097])).await, expected);
}

#[tokio::test]
async fn bad_arguments_are_refused_and_change_nothing() {
    let server = TestServer::new();
    let whole = "is not a whole number or out of range: found";
    assert_replies(
        &server,
        &[
            ("CL.THROTTLE u1 15 30", "-ERR wrong number of arguments for 'cl.throttle' command"),
            ("CL.THROTTLE u1 15 30 60 1 1", "-ERR wrong number of arguments for 'cl.throttle' command"),
            ("CL.THROTTLE u1 -1 30 60", &format!("-ERR max_burst {whole} '-1'")),
            ("CL.THROTTLE u1 15 x 60", &format!("-ERR count_per_period {whole} 'x'")),
            ("CL.THROTTLE u1 15 30 1.5", &format!("-ERR period {whole} '1.5'")),
            ("CL.THROTTLE u1 15 30 60 +1", &format!("-ERR quantity {whole} '+1'")),
            ("CL.THROTTLE u1 15 30 60 ", &format!("-ERR quantity {whole} ''")),
            ("CL.THROTTLE u1 15 30 60 18446744073709551616", &format!("-ERR quantity {whole} '18446744073709551616'")),
            ("CL.THROTTLE u1 15 0 60", "-ERR count_per_period is not from 1 to 4294967295"),
            ("CL.THROTTLE u1 15 4294967296 60", "-ERR count_per_period is not from 1 to 4294967295"),
            ("CL.THROTTLE u1 15 30 0", "-ERR period is not from 1 second to 366 days"),
            ("CL.THROTTLE u1 15 30 18446744073709551615", "-ERR period is not from 1 second to 366 days"),
            (
                "CL.THROTTLE u1 18446744073709551615 30 60",
                "-ERR max_burst is out of range: the most that can be had at once is from 1 to 4294967295",
            ),
            (
                "THROTTLE u1 0 30 60",
                "-ERR max_burst is out of range: the most that can be had at once is from 1 to 4294967295",
            ),
            ("TG.LIMIT nope u1", "-ERR unknown limit 'nope'"),
            ("TG.RESET nope u1", "-ERR unknown limit 'nope'"),
            ("TG.LIMIT CL.THROTTLE u1", "-ERR unknown limit 'CL.THROTTLE'"),
            ("TG.CHECK THROTTLE u1", "-ERR unknown limit 'THROTTLE'"),
            ("TG.LIMIT api u1 0", "-ERR cost is not a whole number from 1 on: found '0'"),
            ("TG.LIMIT api u1 -1", "-ERR cost is not a whole number from 1 on: found '-1'"),
            ("TG.RESET api u1 1", "-ERR wrong number of arguments for 'tg.reset' command"),
            ("TG.LIMIT api", "-ERR wrong number of arguments for 'tg.limit' command"),
            ("GET a", "-ERR unknown command 'GET', with args beginning with: 'a' "),
            ("CL.THROTTLE u1 15 30 60 0", "0 16 16 -1 0"),
            ("THROTTLE u1 16 30 60 0", "1 16 16 0 0"),
            ("TG.CHECK api u1", "1 20 20 -1 0"),
        ],
    )
    .await;
    let long = server.replies(command(&[&[b'x'; 8000], &[b'y'; 8000], &[b'z'; 8000]])).await;
    assert!(long.starts_with("-ERR unknown command 'xxx") && long.len() < 600, "{long}");
    let forged = server.replies(command(&[b"x\r\n+OK"])).await;
    assert_eq!(forged, "-ERR unknown command 'x  +OK', with args beginning with: \r\n");
}

#[tokio::test]
async fn connection_commands_reply_like_redis() {
    let server = TestServer::new();
    assert_replies(
        &server,
        &[
            ("PING", "+PONG"),
            ("ping hello", "$5\r\nhello"),
            ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
            ("ECHO hello", "$5\r\nhello"),
            ("SELECT 0", "+OK"),
            ("SELECT 1", "-ERR DB index is out of range"),
            ("RESET", "+RESET"),
            ("QUIT", "+OK"),
            ("CLIENT SETINFO lib-name redis-py", "+OK"),
            ("CLIENT SETNAME me", "+OK"),
            ("CLIENT GETNAME", "$-1"),
            ("CLIENT NO-EVICT on", "+OK"),
            ("CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command"),
            ("CLIENT KILL", "-ERR unknown subcommand 'KILL'. CLIENT knows fewer here than in Redis."),
            ("COMMAND COUNT", ":16"),
            ("COMMAND INFO nope", "*1\r\n$-1"),
            (
                "COMMAND INFO cl.throttle",
                "*1\r\n*10\r\n$11\r\ncl.throttle\r\n:-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n\
                 *0\r\n*0\r\n*0\r\n*0",
            ),
            ("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n"),
            ("CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno"),
            ("CONFIG GET dir", "*0"),
            ("CONFIG SET save x", "-ERR unknown subcommand 'SET'. CONFIG knows fewer here than in Redis."),
            ("AUTH x", NO_PASSWORD),
            ("HELLO 3 AUTH default x", NO_PASSWORD),
            ("HELLO 4", "-NOPROTO unsupported protocol version"),
            ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
            ("HELLO 3 AUTH x", "-ERR Syntax error in HELLO option 'AUTH'"),
        ],
    )
    .await;
    // As people type it.
    assert_eq!(server.replies("  ping \"a b\"\n\nSELECT 0\r\n").await, "$3\r\na b\r\n+OK\r\n");
    let named = server.replies("CLIENT SETNAME me\r\nCLIENT GETNAME\r\nRESET\r\nCLIENT GETNAME\r\n").await;
    assert_eq!(named, "+OK\r\n$2\r\nme\r\n+RESET\r\n$-1\r\n");
    let info = server.replies("INFO\r\n").await;
    for line in ["# Server", "redis_version:7.0.0", "connected_clients:1", "loading:0", "store:test", "limits:3"] {
        assert!(info.contains(&format!("{line}\r\n")), "{line} in {info}");
    }
    let info = server.replies("INFO clients nope\r\n").await;
    assert_eq!(info, "$32\r\n# Clients\r\nconnected_clients:1\r\n\r\n");
}

const NO_PASSWORD: &str = "-ERR AUTH <password> called without any password configured for the default user. Are you \
                           sure your configuration is correct?";

#[tokio::test]
async fn hello_changes_the_protocol() {
    let server = TestServer::new();
    let said = server.replies("HELLO 3\r\nCOMMAND INFO nope\r\nHELLO 2 SETNAME me\r\nCLIENT GETNAME\r\n").await;
    let introduced = |head: &str, protocol: u8| {
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "{head}\r\n$6\r\nserver\r\n$8\r\ntidegate\r\n$7\r\nversion\r\n${}\r\n{version}\r\n$5\r\nproto\r\n:{protocol}\r\n\
             $2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
            version.len()
        )
    };
    assert_eq!(said, format!("{}*1\r\n_\r\n{}$2\r\nme\r\n", introduced("%7", 3), introduced("*14", 2)));
}

#[tokio::test]
async fn a_page_in_a_browser_cannot_send_commands() {
    let server = TestServer::new();
    let form = "POST / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\nTG.LIMIT login u1\r\n";
    assert_eq!(server.replies(form).await, "-ERR this is the Redis protocol, and not HTTP\r\n");
    let page = server.replies(form.replace("POST", "GET")).await;
    assert!(page.ends_with(" \r\n-ERR this is the Redis protocol, and not HTTP\r\n"), "{page}");
    assert_eq!(server.replies("TG.CHECK login u1\r\n").await, five_integers([1, 1, 1, -1, 0]));
}
