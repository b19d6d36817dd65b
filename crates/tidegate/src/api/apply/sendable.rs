//! What of a batch can be sent at all.

use tidegate_core::{Decision, Request, StoreError, StoreErrorKind};

/// The requests of a batch that can be sent, and what is answered to the others: one text that is too long is no reason to
/// refuse the rest.
#[derive(Debug)]
pub struct Sendable<'a> {
    requests: Vec<Request<'a>>,
    /// None for one that is sent.
    refused: Vec<Option<StoreError>>,
}

impl<'a> Sendable<'a> {
    /// Those of the requests without a text longer than `longest`.
    pub fn of(requests: &[Request<'a>], longest: usize) -> Self {
        let refused: Vec<_> = requests.iter().map(|request| check(request, longest).err()).collect();
        let sent = requests.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
        Sendable { requests: sent.map(|(request, _)| *request).collect(), refused }
    }

    /// What is sent.
    pub fn requests(&self) -> &[Request<'a>] {
        &self.requests
    }

    /// The answers to what was sent, and to the others, in the order of the batch.
    pub fn answers(self, answers: Vec<Result<Decision, StoreError>>) -> Vec<Result<Decision, StoreError>> {
        let mut answers = answers.into_iter();
        let answer = |refused: Option<StoreError>| match refused {
            Some(error) => Err(error),
            None => answers.next().expect("an answer to each that was sent"),
        };
        self.refused.into_iter().map(answer).collect()
    }
}

fn check(request: &Request<'_>, longest: usize) -> Result<(), StoreError> {
    let key = request.key.to_text();
    for (name, text) in [("key", &*key), ("prefix", request.scope.prefix()), ("limit", request.scope.limit())] {
        if text.len() > longest {
            let why = format!("{name}: found {} bytes, expected at most {longest}", text.len());
            return Err(StoreError::new(StoreErrorKind::Unsupported, why));
        }
    }
    Ok(())
}
