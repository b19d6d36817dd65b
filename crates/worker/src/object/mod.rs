//! The class of the objects that keys live in.

mod book;
mod cache;
#[cfg(test)]
pub(crate) mod memory;
pub(crate) mod message;
mod rows;
mod sql;

use std::cell::{Cell, OnceCell};
use std::time::Duration;

use tidegate::api::Problem;
use tidegate::{Clock, StoreError, SystemClock, Timestamp};
// The attribute expects some of these by name.
use worker::{Delay, DurableObject, Env, Method, Request, Response, State, durable_object, wasm_bindgen};

pub(crate) use book::{Book, When};
use message::Message;
use sql::SqlRows;

use crate::Shards;
use crate::settings::{BINDING, SHARD, SHARDS};
use crate::shards::object_name;
use crate::store::detail;

/// How often an object forgets the keys that are as good as new.
const SWEEP: Duration = Duration::from_secs(3_600);

/// One of the objects that keys live in. Only Workers ask it, over its binding.
///
/// It decides without waiting for anything between reading and writing, so its decisions are those of some order of the
/// calls. What it has in memory is what is in its storage: when the platform ends it, nothing is lost.
#[durable_object(alarm)]
pub struct RateLimiter {
    state: State,
    env: Env,
    book: OnceCell<Book<SqlRows>>,
    /// What the first object has said about how many there are.
    compared: Cell<Option<u16>>,
    /// Whether it is known that an alarm is set.
    has_alarm: Cell<bool>,
}

impl DurableObject for RateLimiter {
    fn new(state: State, env: Env) -> Self {
        let (book, compared, has_alarm) = (OnceCell::new(), Cell::new(None), Cell::new(false));
        RateLimiter { state, env, book, compared, has_alarm }
    }

    async fn fetch(&self, request: Request) -> worker::Result<Response> {
        match self.answer(request).await {
            Ok(body) => Response::from_bytes(body),
            Err(problem) => {
                let (head, body) = problem.to_response().into_parts();
                Ok(Response::ok(body)?.with_status(head.status.as_u16()))
            }
        }
    }

    async fn alarm(&self) -> worker::Result<Response> {
        self.has_alarm.set(false);
        // What cannot be swept now can be in an hour: the alarm comes again, whatever has failed.
        let swept = self.sweep(None).await.and_then(|()| self.open()?.rows().is_empty());
        let is_empty = swept.unwrap_or_else(|error| {
            worker::console_error!("tidegate: not everything could be swept: {error}");
            false
        });
        if !is_empty {
            self.arm().await?;
        }
        Response::empty()
    }
}

impl RateLimiter {
    fn open(&self) -> Result<&Book<SqlRows>, StoreError> {
        if let Some(book) = self.book.get() {
            return Ok(book);
        }
        let rows = SqlRows::open(self.state.storage().sql())?;
        Ok(self.book.get_or_init(|| Book::new(rows)))
    }

    fn book(&self) -> Result<&Book<SqlRows>, Problem> {
        self.open().map_err(broken)
    }

    async fn answer(&self, mut request: Request) -> Result<Vec<u8>, Problem> {
        let asked = Asked::of(&request)?;
        if request.method() != Method::Post {
            return Err(Problem::method_not_allowed());
        }
        self.compare(asked).await?;
        match &*request.path() {
            path @ ("/apply" | "/look") => {
                let message = Message::read(&path[1..], &body(&mut request).await?)?;
                self.apply(asked, &message).await
            }
            "/settle" => self.settle(asked).await.map(|()| Vec::new()),
            "/compare" => Ok(self.book()?.rows().shards().map(|_| SETTLED.to_vec()).unwrap_or_default()),
            "/sweep" => {
                let at = body(&mut request).await?;
                let at = str::from_utf8(&at).ok().and_then(|at| at.parse().ok());
                let at = at.ok_or_else(|| Problem::bad_request("expected a time in microseconds"))?;
                self.sweep(Some(Timestamp::from_micros(at))).await.map_err(broken)?;
                let held = self.book()?.rows().count().map_err(broken)?;
                Ok(held.to_string().into_bytes())
            }
            _ => Err(Problem::not_found("there is nothing at this path of an object")),
        }
    }

    async fn apply(&self, asked: Asked, message: &Message) -> Result<Vec<u8>, Problem> {
        let answer = loop {
            match message.answer(self.book()?, SystemClock.now()) {
                Ok(answer) => break answer,
                // Once that is done, there are tables to write into.
                Err(_) => self.settle(asked).await?,
            }
        };
        if self.book()?.rows().was_written() && !self.has_alarm.get() {
            // The decision is made and written: that it is swept an hour later or so is not worth an error.
            if let Err(error) = self.arm().await {
                worker::console_error!("tidegate: no alarm could be set: {error}");
            }
        }
        Ok(answer)
    }

    /// Whether the Worker counts as many objects as there are. A storage with nothing in it does not know; the first object
    /// does, because every number of objects has one.
    async fn compare(&self, asked: Asked) -> Result<(), Problem> {
        let count = asked.shards.count();
        match self.book()?.rows().shards().or(self.compared.get()) {
            Some(settled) if settled == count => Ok(()),
            Some(settled) => Err(differ(settled, count)),
            None if asked.shard == 0 => Ok(()),
            None => {
                // As long as nobody has settled it, the next one may count differently.
                if self.first(asked, "compare").await? == SETTLED {
                    self.compared.set(Some(count));
                }
                Ok(())
            }
        }
    }

    /// Settles how many objects there are: with the first object, and then here.
    async fn settle(&self, asked: Asked) -> Result<(), Problem> {
        if asked.shard != 0 {
            self.first(asked, "settle").await?;
        }
        // Somebody else may have been quicker, while this one waited.
        match self.book()?.rows().shards() {
            Some(settled) if settled != asked.shards.count() => Err(differ(settled, asked.shards.count())),
            Some(_) => Ok(()),
            None => self.book()?.rows().settle(asked.shards).map_err(broken),
        }
    }

    /// Asks the first object.
    async fn first(&self, asked: Asked, what: &str) -> Result<Vec<u8>, Problem> {
        let asked = Asked { shard: 0, ..asked };
        let stub = self.env.durable_object(BINDING).and_then(|objects| objects.get_by_name(&object_name(0)));
        let answer = async { stub?.fetch_with_request(asked.request(what, &[])?).await }.await;
        let mut answer = answer.map_err(|error| unreachable(&error))?;
        let said = answer.bytes().await.map_err(|error| unreachable(&error))?;
        match answer.status_code() {
            200 => Ok(said),
            status => Err(handed_on(status, &said)),
        }
    }

    /// Forgets what is as good as new: now, or at the time of a test.
    async fn sweep(&self, at: Option<Timestamp>) -> Result<(), StoreError> {
        let book = self.open()?;
        let when = When { at: at.unwrap_or_else(|| SystemClock.now()), given: at.is_some() };
        let mut after = String::new();
        while let Some(next) = book.sweep(&after, when)? {
            after = next;
            // Whoever asks meanwhile does not wait for all pages.
            Delay::from(Duration::ZERO).await;
        }
        Ok(())
    }

    /// How often it is swept, which only a test changes.
    fn every(&self) -> Duration {
        let told = |name| self.env.var(name).ok().map(|told| told.to_string());
        let testing = told("TIDEGATE_TESTING").is_some_and(|testing| testing == "true");
        let millis = told("TIDEGATE_SWEEP_MS").filter(|_| testing).and_then(|millis| millis.parse().ok());
        millis.map_or(SWEEP, Duration::from_millis)
    }

    /// Sets the alarm for the next sweep, unless it is set.
    async fn arm(&self) -> worker::Result<()> {
        let storage = self.state.storage();
        if storage.get_alarm().await?.is_none() {
            storage.set_alarm(self.every()).await?;
        }
        self.has_alarm.set(true);
        Ok(())
    }
}

/// Which object is asked, and out of how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) shard: u16,
    pub(crate) shards: Shards,
}

impl Asked {
    fn of(request: &Request) -> Result<Self, Problem> {
        let number = |name| request.headers().get(name).ok().flatten().and_then(|number| number.parse().ok());
        let shards = number(SHARDS).and_then(Shards::new);
        let asked = number(SHARD).zip(shards).map(|(shard, shards)| Asked { shard, shards });
        asked.ok_or_else(|| Problem::bad_request("only a Worker asks an object"))
    }

    /// A request to the object.
    pub(crate) fn request(self, what: &str, body: &[u8]) -> worker::Result<Request> {
        let mut init = worker::RequestInit::new();
        let headers = worker::Headers::new();
        headers.set(SHARD, &self.shard.to_string())?;
        headers.set(SHARDS, &self.shards.to_string())?;
        let body = worker::js_sys::Uint8Array::from(body);
        init.with_method(Method::Post).with_headers(headers).with_body(Some(body.into()));
        Request::new_with_init(&format!("https://object/{what}"), &init)
    }
}

async fn body(request: &mut Request) -> Result<Vec<u8>, Problem> {
    request.bytes().await.map_err(|error| Problem::bad_request(format!("the body cannot be read: {error}")))
}

/// What the first object answers once it is settled how many there are.
const SETTLED: &[u8] = b"settled";

/// What an error begins with that is about how many objects there are.
pub(crate) const DIFFERENT: &str = "shards: ";

fn differ(settled: u16, asked: u16) -> Problem {
    let detail = format!(
        "{DIFFERENT}this Worker counts {asked} objects, and the keys live in {settled}: most would be looked for elsewhere \
         and begin anew. Set it back to {settled}, or move as docs/workers.md says"
    );
    Problem::new(http::StatusCode::CONFLICT, detail)
}

fn broken(error: StoreError) -> Problem {
    Problem::from(&tidegate::Error::Store(error))
}

fn unreachable(error: &worker::Error) -> Problem {
    let status = http::StatusCode::SERVICE_UNAVAILABLE;
    Problem::new(status, format!("the first object cannot be asked: {error}"))
}

fn handed_on(status: u16, said: &[u8]) -> Problem {
    let status = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::SERVICE_UNAVAILABLE);
    Problem::new(status, detail(status, said))
}
