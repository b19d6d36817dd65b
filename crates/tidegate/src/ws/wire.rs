//! The format of messages: JSON in text frames.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidegate_core::Timestamp;

use super::Error;

/// What types of the protocol's own begin with.
pub(super) const RESERVED: &str = "$ws:";
/// The client gives up a call.
pub(super) const ABORT: &str = "$ws:abort";
/// Something a call has to say before its answer.
pub(super) const PROGRESS: &str = "$ws:rpc-progress";
/// Something went wrong with an event, or with nothing in particular.
pub(super) const ERROR: &str = "ERROR";
/// Something went wrong with a call.
pub(super) const RPC_ERROR: &str = "RPC_ERROR";

/// The longest correlation id, which is kept for as long as a call is worked on.
const LONGEST_ID: usize = 128;

/// As much of a message as is needed to route it. The payload has been looked over for its end, and not been built.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) message_type: Cow<'a, str>,
    pub(super) correlation_id: Option<Cow<'a, str>>,
    /// How long the client waits for the answer.
    pub(super) timeout: Option<Duration>,
    /// As it was sent; `null` when there is none.
    pub(super) payload: &'a str,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, rename = "type")]
    message_type: Cow<'a, str>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow)]
    correlation_id: Option<Text<'a>>,
    timeout_ms: Option<u64>,
}

/// Text that is borrowed where it can be, which serde does not do within an `Option` by itself.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads an object: serde would take an array of its fields as well.
fn read_object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    text.trim_ascii_start().starts_with('{').then(|| serde_json::from_str(text).ok())?
}

impl<'a> Head<'a> {
    /// Reads a message's head. What is wrong is said without a word of what was sent.
    pub(super) fn read(text: &'a str) -> Result<Self, Error> {
        let no_message = || Error::invalid("This is no message: {\"type\":\"...\", ...}");
        let envelope: Envelope<'a> = read_object(text).ok_or_else(no_message)?;
        let meta = envelope.meta.map_or_else(|| Some(Meta::default()), |meta| read_object(meta.get()));
        let Meta { correlation_id, timeout_ms } = meta.ok_or_else(no_message)?;
        let correlation_id = correlation_id.map(|Text(id)| id);
        if correlation_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > LONGEST_ID) {
            return Err(Error::invalid(format!("A correlation id has 1 to {LONGEST_ID} bytes")));
        }
        Ok(Head {
            message_type: envelope.message_type,
            correlation_id,
            timeout: timeout_ms.map(Duration::from_millis),
            payload: envelope.payload.map_or("null", RawValue::get),
        })
    }
}

/// A message to a client.
#[derive(Serialize)]
struct Outgoing<'a, P> {
    #[serde(rename = "type")]
    message_type: &'a str,
    meta: OutgoingMeta<'a>,
    payload: &'a P,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutgoingMeta<'a> {
    timestamp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
}

/// How a message ends whose payload is `null`, and no other: an object or an array in there has a bracket of its own at the
/// end.
const NO_PAYLOAD: &str = r#","payload":null}"#;

/// Writes a message. A payload that is `null` is left out, because clients that check messages strictly take one without a
/// payload to be without the word too. What serde cannot write as JSON is a mistake in the program.
pub(super) fn write(
    message_type: &str,
    correlation_id: Option<&str>,
    payload: &impl Serialize,
    now: Timestamp,
) -> Result<String, Error> {
    let meta = OutgoingMeta { timestamp: now.as_micros() / 1_000, correlation_id };
    let mut written =
        serde_json::to_string(&Outgoing { message_type, meta, payload }).map_err(|_| Error::internal())?;
    if written.ends_with(NO_PAYLOAD) {
        written.truncate(written.len() - NO_PAYLOAD.len());
        written.push('}');
    }
    Ok(written)
}

/// Writes an error: as the answer to a call, if it is one.
pub(super) fn write_error(correlation_id: Option<&str>, error: &Error, now: Timestamp) -> String {
    let message_type = if correlation_id.is_some() { RPC_ERROR } else { ERROR };
    write(message_type, correlation_id, error, now).expect("text, numbers and JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_without_its_payload() {
        let text = r#"{"payload": {"a": [1, {"b": "\u0000"}]}, "other": 1,
            "meta": {"correlationId": "7", "timeoutMs": 250, "x": {}}, "type": "SAY"}"#;
        let head = Head::read(text).unwrap();
        assert_eq!(head.message_type, "SAY");
        assert!(matches!(head.message_type, Cow::Borrowed(_)), "nothing was copied");
        assert!(matches!(head.correlation_id, Some(Cow::Borrowed("7"))));
        assert_eq!(head.timeout, Some(Duration::from_millis(250)));
        assert_eq!(head.payload, r#"{"a": [1, {"b": "\u0000"}]}"#);
        assert_eq!(Head::read(r#"{"type":"A"}"#).unwrap().payload, "null");
        assert_eq!(Head::read(r#"{"type":"A","meta":null,"payload":null}"#).unwrap().correlation_id, None);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let long = format!(r#"{{"type":"A","meta":{{"correlationId":"{}"}}}}"#, "x".repeat(LONGEST_ID + 1));
        let deep = format!(r#"{{"type":"A","payload":{}"#, "[".repeat(60_000));
        for text in [
            "",
            "SAY",
            "null",
            "[]",
            "{}",
            r#"["A",null,{}]"#,
            r#"{"type":"A","meta":["7",250]}"#,
            r#"{"type":1}"#,
            r#"{"type":"A","type":"B"}"#,
            r#"{"type":"A","meta":7}"#,
            r#"{"type":"A","meta":{"correlationId":7}}"#,
            r#"{"type":"A","meta":{"correlationId":""}}"#,
            r#"{"type":"A","meta":{"timeoutMs":-1}}"#,
            r#"{"type":"A","payload":{"a":}}"#,
            r#"{"type":"A"} x"#,
            &long,
            &deep,
        ] {
            let error = Head::read(text).unwrap_err();
            assert_eq!(error.code(), super::super::Code::InvalidArgument, "{text}");
        }
    }

    #[test]
    fn a_message_is_written_with_its_time_in_milliseconds() {
        let now = Timestamp::from_micros(1_699_123_456_789_999);
        let written = write("SAID", Some("a\"b"), &[1, 2], now).unwrap();
        let expected = r#"{"type":"SAID","meta":{"timestamp":1699123456789,"correlationId":"a\"b"},"payload":[1,2]}"#;
        assert_eq!(written, expected);
    }

    #[test]
    fn a_message_without_a_payload_is_written_without_one() {
        let written = |payload: &serde_json::Value| write("A", None, payload, Timestamp::from_micros(1_000)).unwrap();
        assert_eq!(written(&serde_json::Value::Null), r#"{"type":"A","meta":{"timestamp":1}}"#);
        for payload in [r#"{"payload":null}"#, r#"[null]"#, r#"",\"payload\":null}""#, r#"{"a":1,"payload":null}"#] {
            let expected = format!(r#"{{"type":"A","meta":{{"timestamp":1}},"payload":{payload}}}"#);
            assert_eq!(written(&serde_json::from_str(payload).unwrap()), expected);
        }
    }
}
