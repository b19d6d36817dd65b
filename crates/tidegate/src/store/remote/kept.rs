//! Connections that are made to their end.

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

/// Makes connections. One whose call has given up, having less time than connecting takes, is made all the same, and the
/// next call gets it: otherwise none of them would ever be answered.
pub(super) struct Kept<C: Service<Uri>> {
    connector: C,
    spare: Arc<Spare<C::Response>>,
}

impl<C: Service<Uri>> Kept<C> {
    /// Those of `connector`, which may take so long then, and are kept for so long.
    pub(super) fn new(connector: C, connect_timeout: Duration, idle_timeout: Duration) -> Self {
        Kept { connector, spare: Arc::new(Spare { connect_timeout, idle_timeout, there: Mutex::new(There::Nothing) }) }
    }
}

impl<C: Service<Uri> + Clone> Clone for Kept<C> {
    fn clone(&self) -> Self {
        Kept { connector: self.connector.clone(), spare: Arc::clone(&self.spare) }
    }
}

impl<C> Service<Uri> for Kept<C>
where
    C: Service<Uri, Response: Read + Unpin + Send + 'static, Error: Send + 'static, Future: Send + 'static>,
{
    type Response = C::Response;
    type Error = C::Error;
    type Future = Connecting<C::Response, C::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let making: Making<_, _> = match self.spare.take() {
            Some(connection) => Box::pin(ready(Ok(connection))),
            None => Box::pin(self.connector.call(uri)),
        };
        Connecting { making: Some(making), spare: Arc::clone(&self.spare) }
    }
}

/// The one connection that nobody waits for any more.
struct Spare<T> {
    connect_timeout: Duration,
    idle_timeout: Duration,
    there: Mutex<There<T>>,
}

enum There<T> {
    Nothing,
    /// It is being made. Nobody makes another beside it, however many give up.
    Comes,
    /// With a mark of its own.
    Is(T, Arc<()>),
}

impl<T> Spare<T> {
    /// Puts something there in place of what is, if that is as expected, and says what it was.
    fn change(&self, into: There<T>, expected: impl FnOnce(&There<T>) -> bool) -> Option<There<T>> {
        let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        expected(&there).then(|| std::mem::replace(&mut *there, into))
    }
}

impl<T: Read + Unpin> Spare<T> {
    /// The one that is there, unless the server has ended it meanwhile: that would fail the call.
    fn take(&self) -> Option<T> {
        let taken = self.change(There::Nothing, |there| matches!(there, There::Is(..)))?;
        let There::Is(mut connection, _) = taken else { return None };
        is_quiet(&mut connection).then_some(connection)
    }
}

/// Whether nothing came over a connection on which nothing was asked, and no end of it either.
fn is_quiet(connection: &mut (impl Read + Unpin)) -> bool {
    let mut byte = [0];
    let mut read = ReadBuf::new(&mut byte);
    Pin::new(connection).poll_read(&mut Context::from_waker(Waker::noop()), read.unfilled()).is_pending()
}

type Making<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// A connection on its way.
pub(super) struct Connecting<T: Send + 'static, E: 'static> {
    making: Option<Making<T, E>>,
    spare: Arc<Spare<T>>,
}

impl<T: Send + 'static, E: 'static> Future for Connecting<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, E>> {
        let making = self.making.as_mut().expect("it is not polled once it has ended");
        let made = ready!(making.as_mut().poll(context));
        self.making = None;
        Poll::Ready(made)
    }
}

impl<T: Send + 'static, E: 'static> Drop for Connecting<T, E> {
    fn drop(&mut self) {
        let (Some(making), Ok(runtime)) = (self.making.take(), Handle::try_current()) else { return };
        if self.spare.change(There::Comes, |there| matches!(there, There::Nothing)).is_some() {
            runtime.spawn(keep(making, Coming(Arc::clone(&self.spare))));
        }
    }
}

/// Makes it, and keeps it for a while.
async fn keep<T, E>(making: Making<T, E>, coming: Coming<T>) {
    let spare = Arc::clone(&coming.0);
    let Ok(Ok(connection)) = timeout(spare.connect_timeout, making).await else { return };
    let mark = Arc::new(());
    spare.change(There::Is(connection, Arc::clone(&mark)), |there| matches!(there, There::Comes));
    drop(coming);
    sleep(spare.idle_timeout).await;
    spare.change(There::Nothing, |there| matches!(there, There::Is(_, own) if Arc::ptr_eq(own, &mark)));
}

/// That one comes, until it is there or does not come after all.
struct Coming<T>(Arc<Spare<T>>);

impl<T> Drop for Coming<T> {
    fn drop(&mut self) {
        self.0.change(There::Nothing, |there| matches!(there, There::Comes));
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::client::legacy::connect::HttpConnector;
    use tokio::net::TcpListener;

    use super::*;
    use crate::{millis, seconds};

    #[tokio::test]
    async fn one_that_the_server_has_ended_meanwhile_is_not_used() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        for is_ended in [false, true] {
            let mut kept = Kept::new(HttpConnector::new(), seconds(1), seconds(60));
            drop(kept.call(server.clone()));
            let (accepted, _) = listener.accept().await.unwrap();
            while !matches!(*kept.spare.there.lock().unwrap(), There::Is(..)) {
                sleep(millis(1)).await;
            }
            let _open = (!is_ended).then_some(accepted);
            // It is heard of when the runtime looks.
            sleep(millis(20)).await;
            kept.call(server.clone()).await.unwrap();
            let another = timeout(millis(200), listener.accept()).await.is_ok();
            assert_eq!(another, is_ended, "another one is made");
        }
    }
}
