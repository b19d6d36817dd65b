//! Questions about limits that the server knows, and the answers to several.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Cost, Key, Problem, Reply, check_count};
use crate::{Decision, Error};

/// What is asked of one limit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct Asked<'a> {
    /// Its name.
    #[serde(borrow)]
    pub limit: Cow<'a, str>,
    /// Who is limited.
    #[serde(borrow)]
    pub key: Key<'a>,
    /// How much is asked for.
    #[serde(default)]
    pub cost: Cost,
}

impl Asked<'_> {
    /// What such a question looks like.
    pub const EXAMPLE: &'static str = r#"{"limit":"login","key":"u1","cost":1}"#;
}

/// What is asked of several.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct Several<'a> {
    /// The questions.
    #[serde(borrow)]
    pub requests: Vec<Asked<'a>>,
}

impl<'a> Several<'a> {
    /// What such a question looks like.
    pub const EXAMPLE: &'static str =
        r#"{"requests":[{"limit":"user","key":"u1"},{"limit":"api","key":["t1","u1"],"cost":2}]}"#;

    /// What a body asks, when it is not too much.
    pub fn parse(body: &'a [u8]) -> Result<Self, Problem> {
        let several: Self = super::parse(body, Self::EXAMPLE)?;
        check_count(several.requests.len())?;
        Ok(several)
    }
}

/// What became of several that were asked all or nothing.
#[derive(Debug, Serialize)]
pub struct All {
    allowed: bool,
    decisions: Vec<Reply>,
}

impl From<&crate::All> for All {
    fn from(all: &crate::All) -> Self {
        All { allowed: all.allowed(), decisions: all.decisions().iter().map(Reply::from).collect() }
    }
}

/// What became of several that were asked each on its own.
#[derive(Debug, Serialize)]
pub struct Batch {
    decisions: Vec<Answer>,
}

/// A decision, or why there is none.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer {
    Decided(Reply),
    Failed(Problem),
}

impl Batch {
    /// What is told of these answers, with `problem` to say what an error is to whoever asks.
    pub fn new(answers: &[Result<Decision, Error>], problem: impl Fn(&Error) -> Problem) -> Self {
        let answer = |answer: &Result<Decision, Error>| match answer {
            Ok(decision) => Answer::Decided(Reply::from(decision)),
            Err(error) => Answer::Failed(problem(error)),
        };
        Batch { decisions: answers.iter().map(answer).collect() }
    }
}
