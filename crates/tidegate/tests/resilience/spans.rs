//! The span around each call of a store.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tidegate::resilience::InstrumentedStore;
use tidegate::{Store, StoreErrorKind};
use tidegate_testkit::block_on;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::support::{TestRequest, clock, error, faulty};

type Fields = BTreeMap<&'static str, String>;

/// Keeps the fields of every span, in order.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Fields>>>);

struct Visitor<'a>(&'a mut Fields);

impl Visit for Visitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        assert_eq!((span.metadata().name(), *span.metadata().level()), ("store", Level::DEBUG));
        let mut spans = self.0.lock().unwrap();
        let mut fields = Fields::new();
        span.record(&mut Visitor(&mut fields));
        spans.push(fields);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut Visitor(&mut self.0.lock().unwrap()[span.into_u64() as usize - 1]));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn span_of_a_call_has_every_field_but_the_key() {
    let spans = Spans::default();
    tracing::subscriber::with_default(spans.clone(), || {
        let (store, faults) = faulty(&clock());
        let store = InstrumentedStore::new(store, "faulty");
        let target = TestRequest::new(2).key("alice");
        let requests = [target.limit(), target.limit()];
        let _ = block_on(store.apply(&requests[0])).unwrap();
        let _ = block_on(store.apply_all(&requests)).unwrap();
        faults.fail(error(StoreErrorKind::Timeout));
        block_on(store.apply_each(&requests));
        assert!(store.try_apply(&requests[0]).unwrap().is_err());
    });
    let seen: Vec<String> = spans.0.lock().unwrap().iter().map(|fields| format!("{fields:?}")).collect();
    assert_eq!(
        seen,
        [
            r#"{"call": "apply", "limit": "login", "op": "limit", "outcome": "allowed", "requests": "1", "store": "faulty"}"#,
            r#"{"call": "apply_all", "outcome": "denied", "requests": "2", "store": "faulty"}"#,
            r#"{"call": "apply_each", "outcome": "failed", "requests": "2", "store": "faulty"}"#,
        ]
    );
}
