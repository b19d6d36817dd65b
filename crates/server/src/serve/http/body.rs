//! The body of a request: bounded in size and in time, and JSON.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;

use crate::json::{Problem, same_site};
use crate::serve::patient::within;

/// How long a client may take to send it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the body of a request that may ask, up to so many bytes.
pub(super) async fn read(request: Request, most: usize) -> Result<Bytes, Problem> {
    same_site(request.uri(), request.headers())?;
    read_of(request.into_body(), most).await
}

/// The same, once it is known that it may.
pub(super) async fn read_of<B>(body: B, most: usize) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    in_time(body, most).await.map_err(|broken| match broken {
        Broken::TooLarge => Problem::too_large(most),
        Broken::TooSlow => Problem::too_slow(),
        Broken::Cut(error) => Problem::bad_request(format!("the body cannot be read: {error}")),
    })
}

/// Why a body cannot be had.
pub(crate) enum Broken {
    TooLarge,
    TooSlow,
    Cut(Box<dyn Error + Send + Sync>),
}

/// A body of so many bytes at most, that is sent in time.
pub(crate) async fn in_time<B>(body: B, most: usize) -> Result<Bytes, Broken>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    match within(PATIENCE, whole(body, most)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Broken::TooLarge),
        Ok(Err(error)) => Err(Broken::Cut(error)),
        Err(_) => Err(Broken::TooSlow),
    }
}

/// All of a body, of so many bytes at most. It comes in one piece nearly always, which is left as it is. Others are put
/// together as they come: kept apart, pieces of a byte would take forty times as much as they hold.
async fn whole<B>(body: B, most: usize) -> Result<Bytes, Box<dyn Error + Send + Sync>>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let mut body = pin!(Limited::new(body, most));
    let (mut first, mut all) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        if first.is_empty() {
            first = piece;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&piece);
    }
    Ok(if all.is_empty() { first } else { all.into() })
}

pub(super) use crate::json::{ONE, SEVERAL, parse};

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer as JSON.
pub(super) fn answer(value: &impl Serialize) -> Response {
    answer_text(serde_json::to_vec(value).expect("numbers and texts are JSON"))
}

/// An answer that is JSON already.
pub(super) fn answer_text(text: Vec<u8>) -> Response {
    let mut response = Bytes::from(text).into_response();
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_waited_for_for_ten_seconds() {
        let silence = axum::body::Body::from_stream(futures_util::stream::pending::<Result<Bytes, axum::Error>>());
        let began = Instant::now();
        let problem = read_of(silence, ONE).await.expect_err("nothing to read");
        assert_eq!((problem.into_response().status().as_u16(), began.elapsed().as_secs()), (408, 10));
    }
}
