//! A connector that completes connections in the background when their call is dropped.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBuf};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tower_service::Service;

/// A connector that finishes connecting when its call is dropped, and keeps that connection for the next call.
/// Otherwise no call would ever be answered while every call has less time than connecting takes.
pub(super) struct BackgroundConnector<C: Service<Uri>> {
    connector: C,
    spare: Arc<SpareSlot<C::Response>>,
}

impl<C: Service<Uri>> BackgroundConnector<C> {
    /// Wraps `connector`. `connect_timeout` and `idle_timeout` bound connecting in the background and the life of the
    /// spare.
    pub(super) fn new(connector: C, connect_timeout: Duration, idle_timeout: Duration) -> Self {
        BackgroundConnector {
            connector,
            spare: Arc::new(SpareSlot { connect_timeout, idle_timeout, state: Mutex::new(SpareState::Empty) }),
        }
    }
}

impl<C: Service<Uri> + Clone> Clone for BackgroundConnector<C> {
    fn clone(&self) -> Self {
        BackgroundConnector { connector: self.connector.clone(), spare: Arc::clone(&self.spare) }
    }
}

impl<C> Service<Uri> for BackgroundConnector<C>
where
    C: Service<Uri, Response: Read + Unpin + Send + 'static, Error: Send + 'static, Future: Send + 'static>,
{
    type Response = C::Response;
    type Error = C::Error;
    type Future = ConnectFuture<C::Response, C::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connect: BoxedConnect<_, _> = match self.spare.take() {
            Some(connection) => Box::pin(ready(Ok(connection))),
            None => Box::pin(self.connector.call(uri)),
        };
        ConnectFuture { connect: Some(connect), spare: Arc::clone(&self.spare) }
    }
}

/// The slot for the one connection whose call was dropped.
struct SpareSlot<T> {
    connect_timeout: Duration,
    idle_timeout: Duration,
    state: Mutex<SpareState<T>>,
}

/// The state of the spare connection.
enum SpareState<T> {
    Empty,
    /// A connection is being made. Other dropped calls start no second one.
    Connecting,
    /// A connection, with a marker that tells it from later ones.
    Ready(T, Arc<()>),
}

impl<T> SpareSlot<T> {
    /// Replaces the state and returns the old one, if `condition` holds for the old one.
    fn replace_if(&self, new: SpareState<T>, condition: impl FnOnce(&SpareState<T>) -> bool) -> Option<SpareState<T>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        condition(&state).then(|| std::mem::replace(&mut *state, new))
    }
}

impl<T: Read + Unpin> SpareSlot<T> {
    /// Takes the spare connection, unless the server has closed it meanwhile: such a connection would fail the call.
    fn take(&self) -> Option<T> {
        let taken = self.replace_if(SpareState::Empty, |state| matches!(state, SpareState::Ready(..)))?;
        let SpareState::Ready(mut connection, _) = taken else { return None };
        is_open_and_idle(&mut connection).then_some(connection)
    }
}

/// Checks that an unused connection has received neither bytes nor its end.
fn is_open_and_idle(connection: &mut (impl Read + Unpin)) -> bool {
    let mut byte = [0];
    let mut read = ReadBuf::new(&mut byte);
    Pin::new(connection).poll_read(&mut Context::from_waker(Waker::noop()), read.unfilled()).is_pending()
}

type BoxedConnect<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// The future of a connection, which continues in the background when it is dropped.
pub(super) struct ConnectFuture<T: Send + 'static, E: 'static> {
    connect: Option<BoxedConnect<T, E>>,
    spare: Arc<SpareSlot<T>>,
}

impl<T: Send + 'static, E: 'static> Future for ConnectFuture<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, E>> {
        let connect = self.connect.as_mut().expect("it is not polled once it has ended");
        let result = ready!(connect.as_mut().poll(context));
        self.connect = None;
        Poll::Ready(result)
    }
}

impl<T: Send + 'static, E: 'static> Drop for ConnectFuture<T, E> {
    fn drop(&mut self) {
        let (Some(connect), Ok(runtime)) = (self.connect.take(), Handle::try_current()) else { return };
        if self.spare.replace_if(SpareState::Connecting, |state| matches!(state, SpareState::Empty)).is_some() {
            runtime.spawn(connect_spare(connect, ConnectingGuard(Arc::clone(&self.spare))));
        }
    }
}

/// Completes a connection and keeps it as the spare until the idle timeout.
async fn connect_spare<T, E>(connect: BoxedConnect<T, E>, guard: ConnectingGuard<T>) {
    let spare = Arc::clone(&guard.0);
    let Ok(Ok(connection)) = timeout(spare.connect_timeout, connect).await else { return };
    let marker = Arc::new(());
    spare.replace_if(SpareState::Ready(connection, Arc::clone(&marker)), |state| {
        matches!(state, SpareState::Connecting)
    });
    drop(guard);
    sleep(spare.idle_timeout).await;
    spare
        .replace_if(SpareState::Empty, |state| matches!(state, SpareState::Ready(_, own) if Arc::ptr_eq(own, &marker)));
}

/// A guard that empties the slot when connecting fails or is dropped.
struct ConnectingGuard<T>(Arc<SpareSlot<T>>);

impl<T> Drop for ConnectingGuard<T> {
    fn drop(&mut self) {
        self.0.replace_if(SpareState::Empty, |state| matches!(state, SpareState::Connecting));
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::client::legacy::connect::HttpConnector;
    use tokio::net::TcpListener;

    use super::*;
    use crate::{millis, seconds};

    #[tokio::test]
    async fn spare_connection_closed_by_the_server_is_not_used() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        for is_closed in [false, true] {
            let mut connector = BackgroundConnector::new(HttpConnector::new(), seconds(1), seconds(60));
            drop(connector.call(server.clone()));
            let (accepted, _) = listener.accept().await.unwrap();
            while !matches!(*connector.spare.state.lock().unwrap(), SpareState::Ready(..)) {
                sleep(millis(1)).await;
            }
            let _open = (!is_closed).then_some(accepted);
            // The runtime notices a closed connection when it polls.
            sleep(millis(20)).await;
            connector.call(server.clone()).await.unwrap();
            let has_second = timeout(millis(200), listener.accept()).await.is_ok();
            assert_eq!(has_second, is_closed, "a second connection is made");
        }
    }
}
