//! What a store has answered, as JSON.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tidegate_core::{Decision, DecisionParts, Reason, StoreError, StoreErrorKind};

/// What a store has answered: for each request a decision, or why there is none.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answers<'a> {
    #[serde(borrow)]
    decisions: Vec<Answer<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Answer<'a> {
    Decided(#[serde(borrow)] Micros<'a>),
    Failed {
        #[serde(borrow)]
        error: Failed<'a>,
    },
}

/// A decision with every field, in microseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Micros<'a> {
    allowed: bool,
    limit: u32,
    remaining: u32,
    retry_after_us: Option<u64>,
    next_after_us: Option<u64>,
    reset_after_us: u64,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Failed<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    message: String,
    retryable: bool,
}

impl<'a> Answers<'a> {
    /// What is told of these answers.
    pub fn new<'b>(answers: impl IntoIterator<Item = &'b Result<Decision, StoreError>>) -> Self {
        Answers { decisions: answers.into_iter().map(Answer::of).collect() }
    }

    /// The answers as they are sent.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are JSON")
    }

    /// The answers in a body; none when it is not ours.
    pub fn parse(body: &'a [u8]) -> Option<Vec<Result<Decision, StoreError>>> {
        let answers: Answers<'_> = serde_json::from_slice(body).ok()?;
        answers.decisions.into_iter().map(Answer::read).collect()
    }
}

impl Answer<'_> {
    fn of(answer: &Result<Decision, StoreError>) -> Self {
        match answer {
            Ok(decision) => {
                let parts = decision.into_parts();
                Answer::Decided(Micros {
                    allowed: parts.allowed,
                    limit: parts.limit,
                    remaining: parts.remaining,
                    retry_after_us: parts.retry_after,
                    next_after_us: parts.next_after,
                    reset_after_us: parts.reset_after,
                    reason: parts.reason.map(|reason| reason.as_str().into()),
                })
            }
            Err(error) => {
                let (kind, retryable) = (error.kind().as_str().into(), error.is_retryable());
                Answer::Failed { error: Failed { kind, message: error.message().to_owned(), retryable } }
            }
        }
    }

    /// The answer itself; none when it is not one of ours.
    fn read(self) -> Option<Result<Decision, StoreError>> {
        match self {
            Answer::Decided(micros) => {
                let named = |name: &str| REASONS.into_iter().find(|reason| reason.as_str() == name);
                let reason = match &micros.reason {
                    Some(name) => Some(named(name)?),
                    None => None,
                };
                let parts = DecisionParts {
                    allowed: micros.allowed,
                    limit: micros.limit,
                    remaining: micros.remaining,
                    retry_after: micros.retry_after_us,
                    next_after: micros.next_after_us,
                    reset_after: micros.reset_after_us,
                    reason,
                };
                Some(Ok(parts.into()))
            }
            Answer::Failed { error } => {
                // A kind that is newer than this still says whether a retry helps.
                let other = if error.retryable { StoreErrorKind::Unavailable } else { StoreErrorKind::Corrupt };
                let kind = KINDS.into_iter().find(|kind| kind.as_str() == error.kind).unwrap_or(other);
                Some(Err(StoreError::new(kind, error.message)))
            }
        }
    }
}

const REASONS: [Reason; 5] =
    [Reason::Rate, Reason::Deny, Reason::CostExceedsCapacity, Reason::Concurrency, Reason::Store];

const KINDS: [StoreErrorKind; 5] = [
    StoreErrorKind::Unavailable,
    StoreErrorKind::Timeout,
    StoreErrorKind::Contended,
    StoreErrorKind::Corrupt,
    StoreErrorKind::Unsupported,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_comes_through() {
        let parts = DecisionParts {
            allowed: false,
            limit: u32::MAX,
            remaining: 7,
            retry_after: Some(DecisionParts::LONGEST),
            next_after: Some(1),
            reset_after: u64::MAX >> 1,
            reason: None,
        };
        let mut answers: Vec<Result<Decision, StoreError>> =
            REASONS.map(|reason| Ok(DecisionParts { reason: Some(reason), ..parts }.into())).into();
        let new = DecisionParts { allowed: true, retry_after: None, next_after: None, reset_after: 0, ..parts };
        answers.push(Ok(new.into()));
        answers.extend(KINDS.map(|kind| Err(StoreError::new(kind, "why"))));
        let read = Answers::parse(&Answers::new(&answers).to_json()).unwrap();
        assert_eq!(read.len(), answers.len());
        for (read, sent) in read.iter().zip(&answers) {
            let comparable = |answer: &Result<Decision, StoreError>| {
                answer.as_ref().map(|decision| decision.into_parts()).map_err(ToString::to_string)
            };
            assert_eq!(comparable(read), comparable(sent));
        }
    }

    #[test]
    fn what_is_not_ours_is_not_taken_for_an_answer() {
        for body in ["", "{}", "[]", r#"{"decisions":[{}]}"#, r#"{"decisions":[{"allowed":true}]}"#] {
            assert!(Answers::parse(body.as_bytes()).is_none(), "{body}");
        }
        let odd = r#"{"decisions":[{"allowed":false,"limit":1,"remaining":0,"retry_after_us":1,"next_after_us":1,"reset_after_us":1,"reason":"moon"}]}"#;
        assert!(Answers::parse(odd.as_bytes()).is_none());
        let newer = r#"{"decisions":[{"error":{"kind":"newer","message":"m","retryable":true}}]}"#;
        let error = Answers::parse(newer.as_bytes()).unwrap().remove(0).unwrap_err();
        assert!(error.is_retryable());
    }
}
