//! The wire format of messages: JSON in text frames.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidegate_core::Timestamp;

use super::MessageError;

/// The prefix of reserved types.
pub(super) const RESERVED: &str = "$ws:";
/// Aborts an RPC.
pub(super) const ABORT: &str = "$ws:abort";
/// Progress of an RPC.
pub(super) const PROGRESS: &str = "$ws:rpc-progress";
/// An error that answers no RPC.
pub(super) const ERROR: &str = "ERROR";
/// An error that answers an RPC.
pub(super) const RPC_ERROR: &str = "RPC_ERROR";

/// A correlation ID is kept while its RPC runs.
const MAX_CORRELATION_ID_BYTES: usize = 128;

/// The parts of a message that route it. The payload is delimited, not parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Envelope<'a> {
    pub(super) message_type: Cow<'a, str>,
    pub(super) correlation_id: Option<Cow<'a, str>>,
    /// How long the client waits for the reply.
    pub(super) timeout: Option<Duration>,
    /// As sent; `null` when absent.
    pub(super) payload: &'a str,
}

#[derive(Deserialize)]
struct RawEnvelope<'a> {
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
    correlation_id: Option<BorrowedText<'a>>,
    timeout_ms: Option<u64>,
}

/// Text that borrows where it can, which serde does not do within an `Option`.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads an object: serde would also take an array of the fields.
fn read_object<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    text.trim_ascii_start().starts_with('{').then(|| serde_json::from_str(text).ok())?
}

impl<'a> Envelope<'a> {
    /// Reads the envelope of a message. Errors never repeat what was sent.
    pub(super) fn read(text: &'a str) -> Result<Self, MessageError> {
        let malformed = || MessageError::invalid("This is no message: {\"type\":\"...\", ...}");
        let envelope: RawEnvelope<'a> = read_object(text).ok_or_else(malformed)?;
        let meta = envelope.meta.map_or_else(|| Some(Meta::default()), |meta| read_object(meta.get()));
        let Meta { correlation_id, timeout_ms } = meta.ok_or_else(malformed)?;
        let correlation_id = correlation_id.map(|BorrowedText(id)| id);
        if correlation_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_CORRELATION_ID_BYTES) {
            return Err(MessageError::invalid(format!("A correlation id has 1 to {MAX_CORRELATION_ID_BYTES} bytes")));
        }
        Ok(Envelope {
            message_type: envelope.message_type,
            correlation_id,
            timeout: timeout_ms.map(Duration::from_millis),
            payload: envelope.payload.map_or("null", RawValue::get),
        })
    }
}

/// A message to a client.
#[derive(Serialize)]
struct OutboundMessage<'a, P> {
    #[serde(rename = "type")]
    message_type: &'a str,
    meta: OutboundMeta<'a>,
    payload: &'a P,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutboundMeta<'a> {
    timestamp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
}

/// The end of a message whose payload is `null`, and of no other: an object or array has its own bracket at the end.
const NO_PAYLOAD: &str = r#","payload":null}"#;

/// Writes a message. A payload of `null` is left out, because strict clients expect a message without a payload to have
/// no `payload` field. A type that serde cannot write as JSON is a programming error.
pub(super) fn write(
    message_type: &str,
    correlation_id: Option<&str>,
    payload: &impl Serialize,
    now: Timestamp,
) -> Result<String, MessageError> {
    let meta = OutboundMeta { timestamp: now.as_micros() / 1_000, correlation_id };
    let mut written = serde_json::to_string(&OutboundMessage { message_type, meta, payload })
        .map_err(|_| MessageError::internal())?;
    if written.ends_with(NO_PAYLOAD) {
        written.truncate(written.len() - NO_PAYLOAD.len());
        written.push('}');
    }
    Ok(written)
}

/// Writes an error, as the reply to an RPC if there is a correlation ID.
pub(super) fn write_error(correlation_id: Option<&str>, error: &MessageError, now: Timestamp) -> String {
    let message_type = if correlation_id.is_some() { RPC_ERROR } else { ERROR };
    write(message_type, correlation_id, error, now).expect("text, numbers and JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelope_is_read_without_parsing_its_payload() {
        let text = r#"{"payload": {"a": [1, {"b": "\u0000"}]}, "other": 1,
            "meta": {"correlationId": "7", "timeoutMs": 250, "x": {}}, "type": "SAY"}"#;
        let envelope = Envelope::read(text).unwrap();
        assert_eq!(envelope.message_type, "SAY");
        assert!(matches!(envelope.message_type, Cow::Borrowed(_)), "nothing was copied");
        assert!(matches!(envelope.correlation_id, Some(Cow::Borrowed("7"))));
        assert_eq!(envelope.timeout, Some(Duration::from_millis(250)));
        assert_eq!(envelope.payload, r#"{"a": [1, {"b": "\u0000"}]}"#);
        assert_eq!(Envelope::read(r#"{"type":"A"}"#).unwrap().payload, "null");
        assert_eq!(Envelope::read(r#"{"type":"A","meta":null,"payload":null}"#).unwrap().correlation_id, None);
    }

    #[test]
    fn malformed_message_is_rejected() {
        let long =
            format!(r#"{{"type":"A","meta":{{"correlationId":"{}"}}}}"#, "x".repeat(MAX_CORRELATION_ID_BYTES + 1));
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
            let error = Envelope::read(text).unwrap_err();
            assert_eq!(error.code(), super::super::ErrorCode::InvalidArgument, "{text}");
        }
    }

    #[test]
    fn timestamp_is_written_in_milliseconds() {
        let now = Timestamp::from_micros(1_699_123_456_789_999);
        let written = write("SAID", Some("a\"b"), &[1, 2], now).unwrap();
        let expected = r#"{"type":"SAID","meta":{"timestamp":1699123456789,"correlationId":"a\"b"},"payload":[1,2]}"#;
        assert_eq!(written, expected);
    }

    #[test]
    fn null_payload_is_left_out() {
        let written = |payload: &serde_json::Value| write("A", None, payload, Timestamp::from_micros(1_000)).unwrap();
        assert_eq!(written(&serde_json::Value::Null), r#"{"type":"A","meta":{"timestamp":1}}"#);
        for payload in [r#"{"payload":null}"#, r#"[null]"#, r#"",\"payload\":null}""#, r#"{"a":1,"payload":null}"#] {
            let expected = format!(r#"{{"type":"A","meta":{{"timestamp":1}},"payload":{payload}}}"#);
            assert_eq!(written(&serde_json::from_str(payload).unwrap()), expected);
        }
    }
}
