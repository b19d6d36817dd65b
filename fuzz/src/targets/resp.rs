//! Commands of the Redis protocol.

// The parser as the server has it. It knows nothing of the rest of the server, which would take long to build.
#[path = "../../../crates/server/src/doors/resp/parse.rs"]
mod parse;

use parse::{Arguments, Bounds, MAX_ARGUMENTS, MAX_COMMAND, ProtocolError};

use super::take;

/// Whatever a client sends and however it is cut into reads: nothing panics, the same commands come out and then the same
/// error, every word lies in what was sent, in order, and none is larger than the bounds.
///
/// A byte for who it is (`s`tranger or not), one for how it is cut, and what is sent.
pub fn resp(data: &[u8]) {
    let (who, data) = take(data);
    let (cut, data) = take(data);
    let bounds = if who == b's' { Bounds::UNAUTHENTICATED } else { Bounds::AUTHENTICATED };
    let whole = commands(data, bounds, data.len());
    assert_eq!(commands(data, bounds, usize::from(cut).max(1)), whole, "it matters how it is cut");
    assert_eq!(commands(data, bounds, 1), whole, "it matters how it is cut");
}

type Commands<'a> = (Vec<Vec<&'a [u8]>>, Option<ProtocolError>);

/// The commands, when so many bytes are read at a time.
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
