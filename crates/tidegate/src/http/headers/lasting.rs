//! Texts that stay as long as the program runs.

use std::sync::{Mutex, PoisonError};

use http::HeaderValue;

/// How many texts stay, and how long each may be: 16 KiB at most. A program has few limits, but may make them as it goes on.
const MOST: usize = 64;
const LONGEST: usize = 256;

static LASTING: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// A text of printable characters that goes into responses again and again. To share one that may be dropped some day takes
/// two writes to memory that all threads share, for each response; one that stays takes none. The first ones do.
pub(super) fn lasting(text: String) -> HeaderValue {
    let mut texts = LASTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.iter().find(|known| **known == text) {
        return HeaderValue::from_static(known);
    }
    if texts.len() == MOST || text.len() > LONGEST {
        return HeaderValue::try_from(text).expect("printable");
    }
    let text: &str = Box::leak(text.into_boxed_str());
    texts.push(text);
    HeaderValue::from_static(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_told_and_few_stay() {
        let long = "x".repeat(LONGEST + 1);
        for text in (0..2 * MOST).chain(0..2 * MOST).map(|n| format!("\"limit {n}\"")).chain([long.clone()]) {
            assert_eq!(lasting(text.clone()), text);
        }
        let texts = LASTING.lock().unwrap();
        assert_eq!(texts.len(), MOST);
        assert!(!texts.contains(&&*long));
        assert!(texts.iter().enumerate().all(|(index, text)| !texts[..index].contains(text)), "each of them once");
    }
}
