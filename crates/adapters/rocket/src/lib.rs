#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

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
use tidegate::enforce::Outcome;
use tidegate::http::adapter::{OwnedHead, changed_headers, header_map};
use tidegate::http::{AdmittedRequest, Gate, InFlight};

/// The gates of an application, by the types that name them: a fairing. It writes headers and responses; a [`GateGuard`]
/// decides. Clones share limits and permits.
#[derive(Debug, Clone, Default)]
pub struct GateFairing(Arc<HashMap<TypeId, Gate>>);

impl GateFairing {
    /// Creates a fairing without gates.
    pub fn new() -> Self {
        GateFairing::default()
    }

    /// Adds the gate that [`GateGuard<N>`] enters. Accepts everything that converts into a [`Gate`], such as
    /// `limiter.enforcer("api")?`.
    #[must_use]
    pub fn gate<N: 'static>(mut self, gate: impl Into<Gate>) -> Self {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<N>(), gate.into());
        self
    }
}

/// A request guard that succeeds if the gate named `N` admits the request.
///
/// A request that is forwarded to another route with the same guard enters the gate once.
#[derive(Debug)]
pub struct GateGuard<N> {
    outcome: Option<Outcome>,
    name: PhantomData<fn() -> N>,
}

impl<N> GateGuard<N> {
    /// Returns the outcome, where [`RateLimit::extension`](tidegate::http::RateLimit::extension) asks for it.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }
}

/// The error of a [`GateGuard`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GateError {
    /// The gate turned the request away. The fairing sends the gate's response.
    Rejected,
    /// No gate has this name, or no [`GateFairing`] is attached: a mistake in the program, answered with 500.
    UnknownGate,
}

/// The method that the client sent. rocket may route a `HEAD` as a `GET`, and the request says `GET` from then on.
struct SentMethod(Method);

impl SentMethod {
    fn of_request<'a>(request: &'a Request<'_>) -> &'a Self {
        request.local_cache(|| SentMethod(request.method()))
    }
}

/// The results of the guards of one request, which the fairing reads.
#[derive(Default)]
struct RequestState(Mutex<GuardResults>);

#[derive(Default)]
struct GuardResults {
    admitted_requests: Vec<(TypeId, AdmittedRequest)>,
    rejection: Option<http::Response<String>>,
}

impl RequestState {
    fn lock(&self) -> MutexGuard<'_, GuardResults> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[rocket::async_trait]
impl<'r, N: 'static> FromRequest<'r> for GateGuard<N> {
    type Error = GateError;

    async fn from_request(request: &'r Request<'_>) -> request::Outcome<Self, GateError> {
        let (name, state) = (TypeId::of::<N>(), request.local_cache(RequestState::default));
        let guard = |admitted: &AdmittedRequest| GateGuard { outcome: admitted.outcome().cloned(), name: PhantomData };
        if let Some((_, admitted)) = state.lock().admitted_requests.iter().find(|(entered, _)| *entered == name) {
            return request::Outcome::Success(guard(admitted));
        }
        let Some(gate) = request.rocket().state().and_then(|fairing: &GateFairing| fairing.0.get(&name)) else {
            return request::Outcome::Error((Status::InternalServerError, GateError::UnknownGate));
        };
        let entering = {
            let headers = copy_headers(request.headers());
            let extensions = request.local_cache(Extensions::new).clone();
            let head = OwnedHead::new(
                SentMethod::of_request(request).0.as_str(),
                &request.uri().to_string(),
                headers,
                extensions,
            );
            let route = request.route().map(|route| route.uri.to_string());
            // The peer of the connection. rocket's `client_ip` would believe a header that any client can send.
            gate.admit(&head.as_request_head(request.remote().map(|peer| peer.ip()), route.as_deref()))
        };
        match entering.await {
            Ok(admitted) => {
                let success = guard(&admitted);
                state.lock().admitted_requests.push((name, admitted));
                request::Outcome::Success(success)
            }
            Err(rejection) => {
                let status = Status::new(rejection.status().as_u16());
                state.lock().rejection = Some(rejection);
                request::Outcome::Error((status, GateError::Rejected))
            }
        }
    }
}

#[rocket::async_trait]
impl Fairing for GateFairing {
    fn info(&self) -> Info {
        Info { name: "tidegate", kind: Kind::Ignite | Kind::Request | Kind::Response | Kind::Singleton }
    }

    async fn on_ignite(&self, rocket: Rocket<Build>) -> fairing::Result {
        Ok(rocket.manage(self.clone()))
    }

    async fn on_request(&self, request: &mut Request<'_>, _: &mut Data<'_>) {
        SentMethod::of_request(request);
    }

    async fn on_response<'r>(&self, request: &'r Request<'_>, response: &mut Response<'r>) {
        let GuardResults { admitted_requests, rejection } =
            std::mem::take(&mut *request.local_cache(RequestState::default).lock());
        // A handler with an `Option<GateGuard<_>>` has already answered.
        if let Some(rejection) = rejection.filter(|rejection| response.status().code == rejection.status().as_u16()) {
            let (head, body) = rejection.into_parts();
            response.set_status(Status::new(head.status.as_u16()));
            write_changes(&HeaderMap::new(), &head.headers, response);
            response.set_sized_body(body.len(), io::Cursor::new(body));
        }
        let length = response.body_mut().size().await;
        let status = StatusCode::from_u16(response.status().code).unwrap_or_default();
        let before = copy_headers(response.headers());
        let (mut after, mut in_flight) = (before.clone(), Vec::new());
        // The gates that were entered last are closest to the handler.
        for (_, admitted) in admitted_requests.into_iter().rev() {
            in_flight.push(admitted.finish(status, &mut after, length.map(|length| length as u64)).await);
        }
        write_changes(&before, &after, response);
        in_flight.retain(|in_flight| !in_flight.is_over());
        if !in_flight.is_empty() {
            let body = GateBody { body: response.body_mut().take(), in_flight };
            match length {
                Some(length) => response.set_sized_body(length, body),
                None => response.set_streamed_body(body),
            }
        }
    }
}

// rocket has header types of its own, so headers are copied.

fn copy_headers(headers: &rocket::http::HeaderMap<'_>) -> HeaderMap {
    let fields: Vec<_> = headers.iter().map(|field| (field.name().to_string(), field.value().to_owned())).collect();
    header_map(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
}

fn write_changes(before: &HeaderMap, after: &HeaderMap, response: &mut Response<'_>) {
    for (name, values) in changed_headers(before, after) {
        response.remove_header(name.as_str());
        for value in values.iter().filter_map(|value| value.to_str().ok()) {
            response.adjoin_header(Header::new(name.to_string(), value.to_owned()));
        }
    }
}

/// The body of a response. The request is in flight until it ends.
struct GateBody<'r> {
    body: Body<'r>,
    in_flight: Vec<InFlight>,
}

impl AsyncRead for GateBody<'_> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut this.body).poll_read(context, buffer));
        let length = buffer.filled().len() - before;
        for in_flight in &mut this.in_flight {
            match &read {
                Ok(()) if length == 0 => in_flight.end(),
                Ok(()) => in_flight.record_chunk(length as u64),
                Err(_) => in_flight.fail(),
            }
        }
        Poll::Ready(read)
    }
}

/// rocket requires this of a body with a known length, and never calls it.
impl AsyncSeek for GateBody<'_> {
    fn start_seek(self: Pin<&mut Self>, _: io::SeekFrom) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }
}
