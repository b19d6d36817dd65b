//! One connection: reads, answers all that was read, writes once.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::debug;

use super::commands::{Context, Todo, find};
use super::common::{Client, Common};
use super::parse::{Arguments, MAX_COMMAND, parse};
use super::question::Question;
use super::reply::Replies;
use super::session::Session;
use crate::serve::patient::within;
use crate::serve::shutdown::Shutdown;

/// How much is read at first; a client that sends more at once gets more room.
const ROOM: usize = 4 << 10;
/// How many bytes of replies are gathered before they are sent.
const GATHER: usize = 16 << 10;
/// How many questions go to the store at once, or are fetched for before they are decided.
const TOGETHER: usize = 128;
/// How many questions there is room for at first.
const USUAL: usize = 16;
/// How long a client may take to show the token.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// How long a client may take from the first byte of a command to the last.
const UNFINISHED: Duration = Duration::from_secs(30);
/// How long a client may take to read its replies. Until then nothing more is read from it.
const UNREAD: Duration = Duration::from_secs(30);
/// What has arrived when the server ends, but was not seen yet, is seen within this time.
const IN_FLIGHT: Duration = Duration::from_millis(10);
/// How long a client that never stops asking is answered when the server ends.
const LAST: Duration = Duration::from_secs(1);
/// How long to wait for the other end to close, so that the last replies arrive whatever it still sends.
const LINGER: Duration = Duration::from_millis(500);

/// Answers a client until it leaves, has to go, or the server ends.
pub(crate) async fn serve<S>(stream: S, peer: SocketAddr, common: Arc<Common>, mut shutdown: Shutdown)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let client = common.welcome();
    let mut connection = Connection::new(stream, client);
    let end = connection.run(pin!(shutdown.begun())).await;
    debug!(%peer, ?end, "a client of the Redis protocol is gone");
    if !matches!(end, End::Left | End::Failed(_)) {
        connection.close().await;
    }
}

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The client has closed it.
    Left,
    /// It does not work any more, or the client was too slow to read.
    Failed(#[allow(dead_code)] io::Error), // for the log
    /// The client has been told that it is over.
    Told,
    /// The client was too slow to send.
    TooSlow,
    /// The server ends.
    Shutdown,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        End::Failed(error)
    }
}

struct Connection<S> {
    stream: S,
    client: Client,
    session: Session,
    /// What was read and not answered yet is in front.
    input: Vec<u8>,
    filled: usize,
    replies: Replies,
    /// When the client has to have shown who it is, until it has.
    introduced_by: Option<Instant>,
    /// When the command that has begun has to be whole.
    finished_by: Option<Instant>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn new(stream: S, client: Client) -> Self {
        let known = client.common.token.is_none();
        Connection {
            stream,
            session: Session::new(client.id, known),
            client,
            input: vec![0; ROOM],
            filled: 0,
            replies: Replies::default(),
            introduced_by: introduced_by(known, None),
            finished_by: None,
        }
    }

    async fn run(&mut self, mut shutdown: Pin<&mut impl Future<Output = ()>>) -> End {
        loop {
            let deadline = self.introduced_by.or(self.finished_by);
            let next = async {
                tokio::select! {
                    biased;
                    // First, or a client that never stops would keep it from being seen. What has arrived is read then, too.
                    () = &mut shutdown => None,
                    read = self.stream.read(&mut self.input[self.filled..]) => Some(read),
                }
            };
            let next = match deadline {
                None => next.await,
                Some(deadline) => match timeout_at(deadline, next).await {
                    Ok(next) => next,
                    Err(_) => return End::TooSlow,
                },
            };
            let done = match next {
                Some(Ok(0)) => return End::Left,
                Some(Ok(read)) => self.read(read).await,
                Some(Err(error)) => return End::Failed(error),
                None => return self.finish().await,
            };
            if let Err(end) = done {
                return end;
            }
            // Somebody whose bytes never end is always read from in time.
            if self.introduced_by.is_some_and(|by| Instant::now() >= by) {
                return End::TooSlow;
            }
        }
    }

    /// Answers what has arrived before the server ends.
    async fn finish(&mut self) -> End {
        let deadline = Instant::now() + LAST;
        while Instant::now() < deadline {
            match timeout(IN_FLIGHT, self.stream.read(&mut self.input[self.filled..])).await {
                Ok(Ok(read)) if read > 0 => {
                    if let Err(end) = self.read(read).await {
                        return end;
                    }
                }
                Ok(Ok(_)) => return End::Left,
                Ok(Err(error)) => return End::Failed(error),
                Err(_) => break,
            }
        }
        End::Shutdown
    }

    /// So many bytes were read: answers the commands that are whole now.
    async fn read(&mut self, count: usize) -> Result<(), End> {
        self.filled += count;
        let had_room = self.filled < self.input.len();
        let used = self.answer().await?;
        self.send().await?;
        if self.session.closing {
            return Err(End::Told);
        }
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        self.finished_by = match (self.filled, used) {
            (0, _) => None,
            // It is still the same command.
            (_, 0) if self.finished_by.is_some() => self.finished_by,
            _ => Some(Instant::now() + UNFINISHED),
        };
        self.introduced_by = introduced_by(self.session.known, self.introduced_by);
        if !had_room && self.input.len() < MAX_COMMAND {
            self.input.resize(self.input.len() * 2, 0);
        }
        Ok(())
    }

    /// Answers every whole command that was read, in order, until one of them ends the connection; says how many bytes that
    /// were.
    async fn answer(&mut self) -> Result<usize, End> {
        let Connection { stream, client, session, input, filled, replies, .. } = self;
        let (input, common) = (&input[..*filled], &*client.common);
        let (mut arguments, mut used) = (Arguments::new(), 0);
        let mut waiting = Waiting { common, questions: Vec::new(), waits: false };
        while !session.closing {
            match parse(&input[used..], session.bounds(), &mut arguments) {
                Ok(Some(bytes)) => used += bytes,
                Ok(None) => break,
                Err(error) => {
                    waiting.settle(replies).await;
                    replies.error(format_args!("ERR Protocol error: {error}"));
                    session.closing = true;
                    break;
                }
            }
            if arguments.is_empty() {
                continue;
            }
            match find(&arguments, session) {
                Todo::Ask(question) => waiting.ask(question, used == input.len(), replies).await,
                Todo::Refuse(refusal) => {
                    waiting.settle(replies).await;
                    replies.error(refusal);
                }
                Todo::Tell(tell) => {
                    waiting.settle(replies).await;
                    tell(&arguments, &mut Context { session: &mut *session, common, replies: &mut *replies });
                }
            }
            if replies.len() >= GATHER {
                send(stream, replies).await?;
            }
        }
        waiting.settle(replies).await;
        Ok(used)
    }

    async fn send(&mut self) -> io::Result<()> {
        send(&mut self.stream, &mut self.replies).await
    }

    /// Closes the connection in a way that lets the last replies arrive: were it closed with something unread, the client
    /// could be told of that first.
    async fn close(mut self) {
        let closed = async {
            self.stream.shutdown().await?;
            while self.stream.read(&mut self.input).await? > 0 {}
            io::Result::Ok(())
        };
        // It is over either way.
        let _ = timeout(LINGER, closed).await;
    }
}

/// When a client has to have shown who it is, until it has.
fn introduced_by(known: bool, before: Option<Instant>) -> Option<Instant> {
    if known { None } else { before.or_else(|| Some(Instant::now() + INTRODUCTION)) }
}

/// Questions that were read and not answered yet, in order.
struct Waiting<'a> {
    common: &'a Common,
    questions: Vec<Question<'a>>,
    /// The store has to be waited for, as is known of the first.
    waits: bool,
}

impl<'a> Waiting<'a> {
    /// Answers what is asked alone at once, where the store can; otherwise the question is answered with others.
    #[inline]
    async fn ask(&mut self, question: Question<'a>, is_last: bool, replies: &mut Replies) {
        if self.questions.is_empty() {
            if is_last {
                match self.common.gate.now(&question.ask()) {
                    Some(answer) => return question.answer(&answer, replies),
                    None => self.waits = true,
                }
            }
            self.questions.reserve(USUAL);
        }
        self.common.gate.prefetch(&question.ask());
        self.questions.push(question);
        if self.questions.len() == TOGETHER {
            self.settle(replies).await;
        }
    }

    /// Answers those that wait.
    #[inline]
    async fn settle(&mut self, replies: &mut Replies) {
        if self.questions.is_empty() {
            return;
        }
        // Those that the store can answer at once come first.
        let mut now = |question: &Question<'_>| match self.common.gate.now(&question.ask()) {
            Some(answer) => {
                question.answer(&answer, replies);
                false
            }
            None => true,
        };
        let first = if self.waits { Some(0) } else { self.questions.iter().position(&mut now) };
        if let Some(first) = first {
            let left = &self.questions[first..];
            let asks: Vec<_> = left.iter().map(Question::ask).collect();
            let answers = self.common.gate.each(&asks).await;
            left.iter().zip(&answers).for_each(|(question, answer)| question.answer(answer, replies));
        }
        self.questions.clear();
        self.waits = false;
    }
}

/// Sends the replies, and waits for a client that does not read them, but not forever.
async fn send<S: AsyncWrite + Unpin>(stream: &mut S, replies: &mut Replies) -> io::Result<()> {
    if replies.len() == 0 {
        return Ok(());
    }
    let sent = async {
        stream.write_all(replies.as_bytes()).await?;
        stream.flush().await
    };
    within(UNREAD, sent).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    replies.clear(GATHER * 2);
    Ok(())
}
