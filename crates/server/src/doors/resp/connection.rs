//! One Redis connection: reads, executes every complete command, and writes all replies at once.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::debug;

use super::commands::{Action, CommandContext, resolve};
use super::parse::{Arguments, MAX_COMMAND, parse};
use super::reply::ReplyBuffer;
use super::request::CommandRequest;
use super::{Client, RespDoor, Session};
use crate::app::App;
use crate::net::buffer_budget::BufferAccount;
use crate::net::shutdown::Shutdown;
use crate::net::timeout_stream::with_timeout;

/// The size of the input buffer at first; it grows for a client that sends more at once.
const INPUT_BYTES: usize = 4 << 10;
/// How many bytes of replies are buffered before they are sent.
const FLUSH_BYTES: usize = 16 << 10;
/// How many bytes of replies are counted with the connection, as the first input buffer is.
const FREE_REPLY_BYTES: usize = 4 << 10;
/// The most requests in a batch to the store, or in a run of prefetches.
const MAX_BATCH: usize = 128;
/// The capacity of a batch at first.
const BATCH_CAPACITY: usize = 16;
/// How long a client may take to show the token.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take from the first byte of a command to the last.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may take to read its replies. Until then, no more commands are read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the server reads what has arrived before the shutdown.
const IN_FLIGHT_TIMEOUT: Duration = Duration::from_millis(10);
/// How long a client that never stops sending is answered after the shutdown.
const MAX_DRAIN: Duration = Duration::from_secs(1);
/// How long to wait for the client to close, so that the last replies arrive even if it still sends.
const LINGER: Duration = Duration::from_millis(500);

/// Answers a client until it or the server ends the connection. Its buffers are counted in its account.
pub(crate) async fn serve<S>(
    stream: S,
    peer: SocketAddr,
    account: Arc<BufferAccount>,
    door: Arc<RespDoor>,
    mut shutdown: Shutdown,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let client = door.connect();
    let mut connection = Connection::new(stream, client, account);
    let end = connection.run(pin!(shutdown.wait())).await;
    debug!(%peer, ?end, "a client of the Redis protocol is gone");
    if !matches!(end, CloseReason::ClosedByClient | CloseReason::Failed(_) | CloseReason::NoRoom) {
        connection.close().await;
    }
}

/// Why a connection ends.
#[derive(Debug)]
enum CloseReason {
    /// The client has closed it.
    ClosedByClient,
    /// It is broken, or the client was too slow to read.
    Failed(#[allow(dead_code)] io::Error), // for the log
    /// The last reply says that the connection closes.
    ClosedByServer,
    /// The client was too slow to send.
    TooSlow,
    /// There is no room for its replies.
    NoRoom,
    /// The server ends.
    Shutdown,
}

impl From<io::Error> for CloseReason {
    fn from(error: io::Error) -> Self {
        CloseReason::Failed(error)
    }
}

struct Connection<S> {
    stream: S,
    client: Client,
    session: Session,
    /// The first `filled` bytes are read and not answered yet.
    input: Vec<u8>,
    filled: usize,
    replies: ReplyBuffer,
    account: Arc<BufferAccount>,
    /// How many bytes of its buffers are counted in the account.
    counted: usize,
    /// The deadline of authentication, until the client is authenticated.
    authenticate_by: Option<Instant>,
    /// The deadline of the command that is incomplete.
    complete_by: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(stream: S, client: Client, account: Arc<BufferAccount>) -> Self {
        let is_authenticated = client.door.token.is_none();
        Connection {
            stream,
            session: Session::new(client.id, is_authenticated),
            client,
            input: vec![0; INPUT_BYTES],
            filled: 0,
            replies: ReplyBuffer::default(),
            account,
            counted: 0,
            authenticate_by: authenticate_by(is_authenticated, None),
            complete_by: None,
        }
    }

    async fn run(&mut self, mut shutdown: Pin<&mut impl Future<Output = ()>>) -> CloseReason {
        loop {
            let deadline = self.authenticate_by.or(self.complete_by);
            let next = async {
                tokio::select! {
                    biased;
                    // First, or a client that never stops sending would delay it. What has arrived is still read then.
                    () = &mut shutdown => None,
                    read = self.stream.read(&mut self.input[self.filled..]) => Some(read),
                }
            };
            let next = match deadline {
                None => next.await,
                Some(deadline) => match timeout_at(deadline, next).await {
                    Ok(next) => next,
                    Err(_) => return CloseReason::TooSlow,
                },
            };
            let done = match next {
                Some(Ok(0)) => return CloseReason::ClosedByClient,
                Some(Ok(read)) => self.process(read).await,
                Some(Err(error)) => return CloseReason::Failed(error),
                None => return self.finish().await,
            };
            if let Err(end) = done {
                return end;
            }
            // A client that never stops sending never hits the timeout of the read.
            if self.authenticate_by.is_some_and(|by| Instant::now() >= by) {
                return CloseReason::TooSlow;
            }
        }
    }

    /// Answers what has arrived before the shutdown.
    async fn finish(&mut self) -> CloseReason {
        let deadline = Instant::now() + MAX_DRAIN;
        while Instant::now() < deadline {
            match timeout(IN_FLIGHT_TIMEOUT, self.stream.read(&mut self.input[self.filled..])).await {
                Ok(Ok(read)) if read > 0 => {
                    if let Err(end) = self.process(read).await {
                        return end;
                    }
                }
                Ok(Ok(_)) => return CloseReason::ClosedByClient,
                Ok(Err(error)) => return CloseReason::Failed(error),
                Err(_) => break,
            }
        }
        CloseReason::Shutdown
    }

    /// Answers the commands that are complete after `count` more bytes.
    async fn process(&mut self, count: usize) -> Result<(), CloseReason> {
        self.filled += count;
        let had_room = self.filled < self.input.len();
        let used = self.answer().await?;
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        let mut input_bytes = self.next_input_bytes(count, had_room);
        if !self.count_buffers(input_bytes) {
            input_bytes = self.input.len();
            let has_room = self.filled < input_bytes && self.count_buffers(input_bytes);
            if !has_room && !self.session.closing {
                self.replies.error("BUSY too many bytes wait in the server: try again later");
                self.session.closing = true;
            }
        }
        self.send().await?;
        if self.session.closing {
            return Err(CloseReason::ClosedByServer);
        }
        self.input.resize(input_bytes, 0);
        self.input.shrink_to(input_bytes);
        self.complete_by = match (self.filled, used) {
            (0, _) => None,
            // It is still the same command.
            (_, 0) if self.complete_by.is_some() => self.complete_by,
            _ => Some(Instant::now() + COMMAND_TIMEOUT),
        };
        self.authenticate_by = authenticate_by(self.session.is_authenticated, self.authenticate_by);
        Ok(())
    }

    /// Returns the size of the input buffer for the next read: a larger one for a client that has filled it, and the first size
    /// again for one that sends little.
    fn next_input_bytes(&self, count: usize, had_room: bool) -> usize {
        match self.input.len() {
            bytes if !had_room => (bytes * 2).min(MAX_COMMAND),
            _ if self.filled == 0 && count < INPUT_BYTES => INPUT_BYTES,
            bytes => bytes,
        }
    }

    /// Counts the buffers with an input buffer of this size, and returns whether there is room.
    fn count_buffers(&mut self, input_bytes: usize) -> bool {
        let bytes = buffer_bytes(input_bytes, &self.session, &self.replies);
        self.account.try_resize(&mut self.counted, bytes)
    }

    /// Answers every complete command in order, until one closes the connection, and returns how many bytes they were.
    async fn answer(&mut self) -> Result<usize, CloseReason> {
        let Connection { stream, client, session, input, filled, replies, account, counted, .. } = self;
        let (input_bytes, input, door) = (input.len(), &input[..*filled], &*client.door);
        let (mut arguments, mut used) = (Arguments::new(), 0);
        let mut batch = Batch { app: &door.app, requests: Vec::new(), must_wait: false };
        while !session.closing {
            match parse(&input[used..], session.bounds(), &mut arguments) {
                Ok(Some(bytes)) => used += bytes,
                Ok(None) => break,
                Err(error) => {
                    batch.flush(replies).await;
                    replies.error(format_args!("ERR Protocol error: {error}"));
                    session.closing = true;
                    break;
                }
            }
            if arguments.is_empty() {
                continue;
            }
            match resolve(&arguments, session) {
                Action::Decide(request) => batch.add(request, used == input.len(), replies).await,
                Action::Refuse(error) => {
                    batch.flush(replies).await;
                    replies.error(error);
                }
                Action::Reply(reply) => {
                    batch.flush(replies).await;
                    reply(&arguments, &mut CommandContext { session: &mut *session, door, replies: &mut *replies });
                }
            }
            if replies.len() >= FLUSH_BYTES {
                if !account.try_resize(counted, buffer_bytes(input_bytes, session, replies)) {
                    return Err(CloseReason::NoRoom);
                }
                send(stream, replies).await?;
            }
        }
        batch.flush(replies).await;
        Ok(used)
    }

    async fn send(&mut self) -> io::Result<()> {
        send(&mut self.stream, &mut self.replies).await
    }

    /// Closes the connection so that the last replies arrive: to close it with unread input would reset it, and the client could
    /// lose them.
    async fn close(mut self) {
        let closed = async {
            self.stream.shutdown().await?;
            while self.stream.read(&mut self.input).await? > 0 {}
            io::Result::Ok(())
        };
        // The connection ends either way.
        let _ = timeout(LINGER, closed).await;
    }
}

/// Returns how many bytes a connection keeps, beyond those that are counted with every connection.
fn buffer_bytes(input_bytes: usize, session: &Session, replies: &ReplyBuffer) -> usize {
    let replies = replies.capacity().saturating_sub(FREE_REPLY_BYTES);
    input_bytes - INPUT_BYTES + replies + session.name.capacity()
}

/// Returns the deadline of authentication; `None` once the client is authenticated.
fn authenticate_by(is_authenticated: bool, before: Option<Instant>) -> Option<Instant> {
    if is_authenticated { None } else { before.or_else(|| Some(Instant::now() + AUTHENTICATION_TIMEOUT)) }
}

/// Requests that are read and not answered yet, in order.
struct Batch<'a> {
    app: &'a App,
    requests: Vec<CommandRequest<'a>>,
    /// Whether the store must be awaited, as the first request has shown.
    must_wait: bool,
}

impl<'a> Batch<'a> {
    /// Answers a single request at once if the store can; otherwise adds it to the batch.
    #[inline]
    async fn add(&mut self, command: CommandRequest<'a>, is_last: bool, replies: &mut ReplyBuffer) {
        if self.requests.is_empty() {
            if is_last {
                match self.app.try_decide(&command.request) {
                    Some(result) => return command.reply(&result, replies),
                    None => self.must_wait = true,
                }
            }
            self.requests.reserve(BATCH_CAPACITY);
        }
        self.app.prefetch(&command.request);
        self.requests.push(command);
        if self.requests.len() == MAX_BATCH {
            self.flush(replies).await;
        }
    }

    /// Answers the requests of the batch.
    #[inline]
    async fn flush(&mut self, replies: &mut ReplyBuffer) {
        if self.requests.is_empty() {
            return;
        }
        // Requests that need no wait come first.
        let mut needs_wait = |command: &CommandRequest<'_>| match self.app.try_decide(&command.request) {
            Some(result) => {
                command.reply(&result, replies);
                false
            }
            None => true,
        };
        let first = if self.must_wait { Some(0) } else { self.requests.iter().position(&mut needs_wait) };
        if let Some(first) = first {
            let left = &self.requests[first..];
            let requests: Vec<_> = left.iter().map(|command| command.request.clone()).collect();
            let results = self.app.decide_batch(&requests).await;
            left.iter().zip(&results).for_each(|(command, result)| command.reply(result, replies));
        }
        self.requests.clear();
        self.must_wait = false;
    }
}

/// Sends the replies, with a timeout for a client that does not read.
async fn send<S: AsyncWrite + Unpin>(stream: &mut S, replies: &mut ReplyBuffer) -> io::Result<()> {
    if replies.len() == 0 {
        return Ok(());
    }
    let sent = async {
        stream.write_all(replies.as_bytes()).await?;
        stream.flush().await
    };
    with_timeout(WRITE_TIMEOUT, sent).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    replies.clear(FLUSH_BYTES * 2);
    Ok(())
}
