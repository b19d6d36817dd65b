//! The class of the Durable Objects that keys live in.

mod cache;
#[cfg(test)]
pub(crate) mod memory;
pub(crate) mod message;
mod sql;
pub(crate) mod table;

use std::cell::{Cell, OnceCell};
use std::time::Duration;

use tidegate::api::Problem;
use tidegate::{Clock, StoreError, SystemClock, Timestamp};
// The attribute expects some of these by name.
use worker::{Delay, DurableObject, Env, Method, Request, Response, State, durable_object, wasm_bindgen};

use message::{ObjectAddress, ObjectMessage};
use sql::SqlRows;
use table::{DecisionTime, ShardTable};

use crate::settings::BINDING;
use crate::shards::object_name;
use crate::store::problem_detail;

/// The interval at which an object evicts the keys that are as good as new.
const SWEEP_INTERVAL: Duration = Duration::from_secs(3_600);

/// A Durable Object that some of the keys live in. Only Workers call it, over its binding.
///
/// It never awaits between reading and writing, so its decisions are those of some order of the calls. Its memory only
/// caches its storage: nothing is lost when the platform ends it.
#[durable_object(alarm)]
pub struct RateLimiter {
    state: State,
    env: Env,
    table: OnceCell<ShardTable<SqlRows>>,
    /// The number of objects that the first object has confirmed.
    confirmed_shards: Cell<Option<u16>>,
    /// Whether an alarm is known to be set.
    has_alarm: Cell<bool>,
}

impl DurableObject for RateLimiter {
    fn new(state: State, env: Env) -> Self {
        let (table, confirmed_shards, has_alarm) = (OnceCell::new(), Cell::new(None), Cell::new(false));
        RateLimiter { state, env, table, confirmed_shards, has_alarm }
    }

    async fn fetch(&self, request: Request) -> worker::Result<Response> {
        match self.respond(request).await {
            Ok(body) => Response::from_bytes(body),
            Err(problem) => {
                let (head, body) = problem.to_response().into_parts();
                Ok(Response::ok(body)?.with_status(head.status.as_u16()))
            }
        }
    }

    async fn alarm(&self) -> worker::Result<Response> {
        self.has_alarm.set(false);
        // A failed sweep is repeated in an hour: the alarm is set again even after an error.
        let swept = self.sweep(None).await.and_then(|()| self.open_table()?.rows().is_empty());
        let is_empty = swept.unwrap_or_else(|error| {
            worker::console_error!("tidegate: not everything could be swept: {error}");
            false
        });
        if !is_empty {
            self.set_alarm().await?;
        }
        Response::empty()
    }
}

impl RateLimiter {
    fn open_table(&self) -> Result<&ShardTable<SqlRows>, StoreError> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let rows = SqlRows::open(self.state.storage().sql())?;
        Ok(self.table.get_or_init(|| ShardTable::new(rows)))
    }

    fn table(&self) -> Result<&ShardTable<SqlRows>, Problem> {
        self.open_table().map_err(store_problem)
    }

    async fn respond(&self, mut request: Request) -> Result<Vec<u8>, Problem> {
        let address = ObjectAddress::from_request(&request)?;
        if request.method() != Method::Post {
            return Err(Problem::method_not_allowed());
        }
        self.check_shards(address).await?;
        match &*request.path() {
            path @ ("/apply" | "/look") => {
                let message = ObjectMessage::parse(&path[1..], &read_body(&mut request).await?)?;
                self.apply(address, &message).await
            }
            "/settle" => self.set_shards(address).await.map(|()| Vec::new()),
            "/compare" => Ok(self.table()?.rows().shards().map(|_| SHARDS_SET.to_vec()).unwrap_or_default()),
            "/sweep" => {
                let at = read_body(&mut request).await?;
                let at = str::from_utf8(&at).ok().and_then(|at| at.parse().ok());
                let at = at.ok_or_else(|| Problem::bad_request("expected a time in microseconds"))?;
                self.sweep(Some(Timestamp::from_micros(at))).await.map_err(store_problem)?;
                let rows = self.table()?.rows().count().map_err(store_problem)?;
                Ok(rows.to_string().into_bytes())
            }
            _ => Err(Problem::not_found("there is nothing at this path of an object")),
        }
    }

    async fn apply(&self, address: ObjectAddress, message: &ObjectMessage) -> Result<Vec<u8>, Problem> {
        let response = loop {
            match message.respond(self.table()?, SystemClock.now()) {
                Ok(response) => break response,
                // This creates the tables.
                Err(_) => self.set_shards(address).await?,
            }
        };
        if self.table()?.rows().take_has_written() && !self.has_alarm.get() {
            // The decision is made and written, so a missing alarm only delays a sweep and is no error of the call.
            if let Err(error) = self.set_alarm().await {
                worker::console_error!("tidegate: no alarm could be set: {error}");
            }
        }
        Ok(response)
    }

    /// Checks that the Worker counts as many objects as there are. An empty storage does not know their number; the
    /// first object does, because every number of objects has one.
    async fn check_shards(&self, address: ObjectAddress) -> Result<(), Problem> {
        let count = address.shards.count();
        match self.table()?.rows().shards().or(self.confirmed_shards.get()) {
            Some(shards) if shards == count => Ok(()),
            Some(shards) => Err(shard_mismatch(shards, count)),
            None if address.shard == 0 => Ok(()),
            None => {
                // Until the number is set, the next Worker may count differently.
                if self.call_first_object(address, "compare").await? == SHARDS_SET {
                    self.confirmed_shards.set(Some(count));
                }
                Ok(())
            }
        }
    }

    /// Sets the number of objects, in the first object and then here.
    async fn set_shards(&self, address: ObjectAddress) -> Result<(), Problem> {
        if address.shard != 0 {
            self.call_first_object(address, "settle").await?;
        }
        // Another call may have set it during the await.
        match self.table()?.rows().shards() {
            Some(shards) if shards != address.shards.count() => Err(shard_mismatch(shards, address.shards.count())),
            Some(_) => Ok(()),
            None => self.table()?.rows().set_shards(address.shards).map_err(store_problem),
        }
    }

    /// Sends a message to the first object and returns the body of its response.
    async fn call_first_object(&self, address: ObjectAddress, path: &str) -> Result<Vec<u8>, Problem> {
        let address = ObjectAddress { shard: 0, ..address };
        let stub = self.env.durable_object(BINDING).and_then(|objects| objects.get_by_name(&object_name(0)));
        let response = async { stub?.fetch_with_request(address.new_request(path, &[])?).await }.await;
        let mut response = response.map_err(|error| first_object_unreachable(&error))?;
        let body = response.bytes().await.map_err(|error| first_object_unreachable(&error))?;
        match response.status_code() {
            200 => Ok(body),
            status => Err(forwarded_problem(status, &body)),
        }
    }

    /// Evicts the rows that are as good as new, now or at the time of a test.
    async fn sweep(&self, at: Option<Timestamp>) -> Result<(), StoreError> {
        let table = self.open_table()?;
        let time = DecisionTime { at: at.unwrap_or_else(|| SystemClock.now()), is_test: at.is_some() };
        let mut after = String::new();
        while let Some(next) = table.sweep(&after, time)? {
            after = next;
            // Other calls run between two pages.
            Delay::from(Duration::ZERO).await;
        }
        Ok(())
    }

    /// Returns the interval of sweeps, which only a test changes.
    fn sweep_interval(&self) -> Duration {
        let variable = |name| self.env.var(name).ok().map(|value| value.to_string());
        let testing = variable("TIDEGATE_TESTING").is_some_and(|testing| testing == "true");
        let millis = variable("TIDEGATE_SWEEP_MS").filter(|_| testing).and_then(|millis| millis.parse().ok());
        millis.map_or(SWEEP_INTERVAL, Duration::from_millis)
    }

    /// Sets the alarm for the next sweep, unless it is set.
    async fn set_alarm(&self) -> worker::Result<()> {
        let storage = self.state.storage();
        if storage.get_alarm().await?.is_none() {
            storage.set_alarm(self.sweep_interval()).await?;
        }
        self.has_alarm.set(true);
        Ok(())
    }
}

async fn read_body(request: &mut Request) -> Result<Vec<u8>, Problem> {
    request.bytes().await.map_err(|error| Problem::bad_request(format!("the body cannot be read: {error}")))
}

/// The response of the first object once the number of objects is set.
const SHARDS_SET: &[u8] = b"settled";

/// The prefix of an error about the number of objects.
pub(crate) const SHARD_MISMATCH_PREFIX: &str = "shards: ";

fn shard_mismatch(actual: u16, counted: u16) -> Problem {
    let detail = format!(
        "{SHARD_MISMATCH_PREFIX}this Worker counts {counted} objects, and the keys live in {actual}: most would be looked for elsewhere \
         and begin anew. Set it back to {actual}, or move as docs/book/src/how-to/workers.md says"
    );
    Problem::new(http::StatusCode::CONFLICT, detail)
}

fn store_problem(error: StoreError) -> Problem {
    Problem::from(&tidegate::Error::Store(error))
}

fn first_object_unreachable(error: &worker::Error) -> Problem {
    let status = http::StatusCode::SERVICE_UNAVAILABLE;
    Problem::new(status, format!("the first object cannot be asked: {error}"))
}

fn forwarded_problem(status: u16, body: &[u8]) -> Problem {
    let status = http::StatusCode::from_u16(status).unwrap_or(http::StatusCode::SERVICE_UNAVAILABLE);
    Problem::new(status, problem_detail(status, body))
}
