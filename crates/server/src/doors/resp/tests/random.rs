//! Commands of random words.

use tidegate_testkit::Random;

use super::{TestServer, command};

/// Every command, of any words, gets one reply. The connection lives, and nothing panics.
#[tokio::test]
async fn every_command_gets_one_reply() {
    let words: [&[u8]; 44] = [
        b"CL.THROTTLE",
        b"THROTTLE",
        b"TG.LIMIT",
        b"TG.CHECK",
        b"TG.RESET",
        b"PING",
        b"ECHO",
        b"HELLO",
        b"AUTH",
        b"SELECT",
        b"CLIENT",
        b"COMMAND",
        b"INFO",
        b"CONFIG",
        b"GET",
        b"COUNT",
        b"DOCS",
        b"LIST",
        b"SETNAME",
        b"GETNAME",
        b"ID",
        b"SETINFO",
        b"api",
        b"login",
        b"trial",
        b"u1",
        b"mallory",
        b"",
        b"0",
        b"1",
        b"2",
        b"3",
        b"15",
        b"60",
        b"-1",
        b"4294967295",
        b"4294967296",
        b"18446744073709551615",
        b"99999999999999999999",
        b"31622400",
        b"31622401",
        b"\xff\0",
        b"\r\n",
        b"*",
    ];
    let mut random = Random::new(7);
    for server in [TestServer::new(), TestServer::with_token()] {
        for _ in 0..200 {
            let count = 50;
            let sent: Vec<u8> = (0..count)
                .flat_map(|_| {
                    let words: Vec<_> = (0..random.between(1, 7)).map(|_| random.pick(&words)).collect();
                    command(&words)
                })
                .collect();
            let replies = server.reply_bytes(&sent).await;
            let (mut rest, mut found) = (&replies[..], 0);
            while !rest.is_empty() {
                rest =
                    skip_reply(rest).unwrap_or_else(|| panic!("{} in {}", rest.escape_ascii(), replies.escape_ascii()));
                found += 1;
            }
            // Too many wrong tokens are the one thing that ends it.
            let ended = replies.ends_with(b"disabled.\r\n");
            assert!(found == count || ended, "{found} for {}", sent.escape_ascii());
        }
    }
}

/// Returns the rest after the first reply.
fn skip_reply(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, mut rest) = (str::from_utf8(&bytes[1..end]).ok()?, &bytes[end + 2..]);
    let replies = match bytes[0] {
        b'+' | b'-' | b':' | b'_' => 0,
        b'$' if line == "-1" => 0,
        b'$' => {
            let length: usize = line.parse().ok()?;
            rest = rest.get(length..)?.strip_prefix(b"\r\n")?;
            0
        }
        b'*' => line.parse().ok()?,
        b'%' => 2 * line.parse::<usize>().ok()?,
        _ => return None,
    };
    (0..replies).try_fold(rest, |rest, _| skip_reply(rest))
}
