//! Commands of the Redis protocol.

// The server's own parser file. It does not depend on the rest of the server, which would take long to build.
#[path = "../../../crates/server/src/doors/resp/parse.rs"]
mod parse;

use parse::{Arguments, Bounds, MAX_ARGUMENTS, MAX_COMMAND, ProtocolError};

use super::take;

/// Checks that no bytes panic, and that reads of any size give the same commands and then the same error. Every word
/// lies in the input, in order, and within the bounds.
///
/// The input is a byte for the bounds (`s` for a client without a token), one for the read size, and the bytes to
/// parse.
pub fn resp(data: &[u8]) {
    let (who, data) = take(data);
    let (cut, data) = take(data);
    let bounds = if who == b's' { Bounds::UNAUTHENTICATED } else { Bounds::AUTHENTICATED };
    let whole = commands(data, bounds, data.len());
    assert_eq!(commands(data, bounds, usize::from(cut).max(1)), whole, "it matters how it is cut");
    assert_eq!(commands(data, bounds, 1), whole, "it matters how it is cut");
}

type Commands<'a> = (Vec<Vec<&'a [u8]>>, Option<ProtocolError>);

/// Returns the commands when that many bytes are read at a time.
fn commands(data: &[u8], bounds: Bounds, step: usize) -> Commands<'_> {
    let (mut found, mut at, mut read) = (Vec::new(), 0, 0);
    while read < data.len() {
        read = (read + step).min(data.len());
        let mut arguments = Arguments::new();
        loop {
            let used = match parse::parse(&data[at..read], bounds, &mut arguments) {
                Ok(Some(used)) => used,
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            };
            assert!(used > 0 && used <= MAX_COMMAND && at + used <= read, "{used} bytes");
            assert!(arguments.len() <= MAX_ARGUMENTS);
            assert!(arguments.iter().map(|word| word.len()).sum::<usize>() <= used, "words from nowhere");
            found.push(arguments.to_vec());
            at += used;
        }
        assert!(read - at < MAX_COMMAND, "{} bytes are waited for, and there is no room for more", read - at);
    }
    (found, None)
}
