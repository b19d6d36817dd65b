//! A [`Gate`] is a request guard of rocket, [`Limited`], with the fairing [`Gates`] for what is answered.
//!
//! ```
//! use rocket::{get, routes};
//! use tidegate::http::Gate;
//! use tidegate::rocket::{Gates, Limited};
//! use tidegate::{Limiter, Quota, minutes};
//!
//! struct Login; // a name for the gate
//!
//! #[get("/login")]
//! async fn login(_limited: Limited<Login>) -> &'static str {
//!     "Welcome!"
//! }
//!
//! let limiter = Limiter::builder().limit("login", Quota::fixed_window(5, minutes(1))?).build()?;
//! let gates = Gates::new().gate::<Login>(Gate::new((&limiter, "login")));
//! let rocket = rocket::build().attach(gates).mount("/", routes![login]);
//! # let _ = rocket;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A guard that turns a request away has answered it: the fairing puts that in the place of what the catcher says. The peer
//! is that of the connection, and never rocket's `client_ip`, which believes a header. rocket drops headers that are not UTF-8: trust
//! one that your proxy sets, and not one that it adds to, or a client can take away what the proxy has said. What earlier guards and fairings
//! know about a request they put into `request.local_cache(tidegate::http::Extensions::new)`, by making it; there
//! [`keys::extension`](crate::http::keys::extension) finds it. A request that is forwarded to another route with the same
//! guard is asked about once.

use std::any::TypeId;
use std::collections::HashMap;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use http::{Extensions, HeaderMap, StatusCode};
use rocket::fairing::{self, Fairing, Info, Kind};
use rocket::http::{Header, Method, Status};
use rocket::request::{self, FromRequest};
use rocket::response::Body;
use rocket::tokio::io::{AsyncRead, AsyncSeek, ReadBuf};
use rocket::{Build, Data, Request, Response, Rocket};

use crate::enforce::Outcome;
use crate::http::foreign::{self, Head};
use crate::http::{Gate, InFlight, Passage};

/// The gates of an application, by the types that name them: a fairing.
#[derive(Debug, Clone, Default)]
pub struct Gates(Arc<HashMap<TypeId, Gate>>);

impl Gates {
    /// None.
    pub fn new() -> Self {
        Gates::default()
    }

    /// These, and one for [`Limited<N>`].
    #[must_use]
    pub fn gate<N: 'static>(mut self, gate: impl Into<Gate>) -> Self {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<N>(), gate.into());
        self
    }
}

/// A request that the gate of that name has let in.
#[derive(Debug)]
pub struct Limited<N> {
    outcome: Option<Outcome>,
    name: PhantomData<fn() -> N>,
}

impl<N> Limited<N> {
    /// What was decided, where the gate [hands it over](crate::http::RateLimit::extension).
    pub fn told(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }
}

/// Why there is no [`Limited`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLimited {
    /// It was turned away, and answered.
    Refused,
    /// There is no such gate: a mistake in the program.
    NoSuchGate,
}

/// How it was asked: what is asked by HEAD may be answered as a GET, and is one from then on.
struct Asked(Method);

impl Asked {
    fn of<'a>(request: &'a Request<'_>) -> &'a Self {
        request.local_cache(|| Asked(request.method()))
    }
}

/// A request on its way.
#[derive(Default)]
struct Passing(Mutex<State>);

#[derive(Default)]
struct State {
    passages: Vec<(TypeId, Passage)>,
    answer: Option<http::Response<String>>,
}

impl Passing {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[rocket::async_trait]
impl<'r, N: 'static> FromRequest<'r> for Limited<N> {
    type Error = NotLimited;

    async fn from_request(request: &'r Request<'_>) -> request::Outcome<Self, NotLimited> {
        let (name, passing) = (TypeId::of::<N>(), request.local_cache(Passing::default));
        let limited = |passage: &Passage| Limited { outcome: passage.told().cloned(), name: PhantomData };
        if let Some((_, passage)) = passing.lock().passages.iter().find(|(entered, _)| *entered == name) {
            return request::Outcome::Success(limited(passage));
        }
        let Some(gate) = request.rocket().state().and_then(|gates: &Gates| gates.0.get(&name)) else {
            return request::Outcome::Error((Status::InternalServerError, NotLimited::NoSuchGate));
        };
        let entering = {
            let fields = request.headers().iter().map(|field| (field.name().to_string(), field.value().to_owned()));
            let fields: Vec<_> = fields.collect();
            let headers = foreign::headers(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
            let extensions = request.local_cache(Extensions::new).clone();
            let head = Head::new(Asked::of(request).0.as_str(), &request.uri().to_string(), headers, extensions);
            let route = request.route().map(|route| route.uri.to_string());
            gate.enter(&head.incoming(request.remote().map(|peer| peer.ip()), route.as_deref()))
        };
        match entering.await {
            Ok(passage) => {
                let success = limited(&passage);
                passing.lock().passages.push((name, passage));
                request::Outcome::Success(success)
            }
            Err(answer) => {
                let status = Status::new(answer.status().as_u16());
                passing.lock().answer = Some(answer);
                request::Outcome::Error((status, NotLimited::Refused))
            }
        }
    }
}

#[rocket::async_trait]
impl Fairing for Gates {
    fn info(&self) -> Info {
        Info { name: "tidegate", kind: Kind::Ignite | Kind::Request | Kind::Response | Kind::Singleton }
    }

    async fn on_ignite(&self, rocket: Rocket<Build>) -> fairing::Result {
        Ok(rocket.manage(self.clone()))
    }

    async fn on_request(&self, request: &mut Request<'_>, _: &mut Data<'_>) {
        Asked::of(request);
    }

    async fn on_response<'r>(&self, request: &'r Request<'_>, response: &mut Response<'r>) {
        let State { passages, answer } = std::mem::take(&mut *request.local_cache(Passing::default).lock());
        // Not of a handler that takes a refusal for an answer, `Option<Limited<_>>`: it has answered.
        if let Some(answer) = answer.filter(|answer| response.status().code == answer.status().as_u16()) {
            let (head, body) = answer.into_parts();
            response.set_status(Status::new(head.status.as_u16()));
            write(&HeaderMap::new(), &head.headers, response);
            response.set_sized_body(body.len(), io::Cursor::new(body));
        }
        let length = response.body_mut().size().await;
        let status = StatusCode::from_u16(response.status().code).unwrap_or_default();
        let fields: Vec<_> =
            response.headers().iter().map(|field| (field.name().to_string(), field.value().to_owned())).collect();
        let before = foreign::headers(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let (mut after, mut in_flight) = (before.clone(), Vec::new());
        // Those that were asked last are the nearest to the handler.
        for (_, passage) in passages.into_iter().rev() {
            in_flight.push(passage.conclude(status, &mut after, length.map(|length| length as u64)).await);
        }
        write(&before, &after, response);
        in_flight.retain(|in_flight| !in_flight.is_over());
        if !in_flight.is_empty() {
            let body = ResponseBody { body: response.body_mut().take(), in_flight };
            match length {
                Some(length) => response.set_sized_body(length, body),
                None => response.set_streamed_body(body),
            }
        }
    }
}

fn write(before: &HeaderMap, after: &HeaderMap, response: &mut Response<'_>) {
    for (name, values) in foreign::changed(before, after) {
        response.remove_header(name.as_str());
        for value in values.iter().filter_map(|value| value.to_str().ok()) {
            response.adjoin_header(Header::new(name.to_string(), value.to_owned()));
        }
    }
}

/// The body of a response: its request is in flight until it ends.
struct ResponseBody<'r> {
    body: Body<'r>,
    in_flight: Vec<InFlight>,
}

impl AsyncRead for ResponseBody<'_> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut this.body).poll_read(context, buffer));
        let length = buffer.filled().len() - before;
        for in_flight in &mut this.in_flight {
            match &read {
                Ok(()) if length == 0 => in_flight.end(),
                Ok(()) => in_flight.hand_over(length as u64),
                Err(_) => in_flight.fail(),
            }
        }
        Poll::Ready(read)
    }
}

/// Rocket wants this of a body whose length it is told, and never asks for it.
impl AsyncSeek for ResponseBody<'_> {
    fn start_seek(self: Pin<&mut Self>, _: io::SeekFrom) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}
