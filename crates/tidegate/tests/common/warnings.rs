//! The warnings and errors that this thread has logged through `tracing`.

use std::fmt::Debug;
use std::sync::{Mutex, OnceLock};
use std::thread::{self, ThreadId};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A subscriber that records warnings with their threads. It is global, because `tracing` caches for all threads whether a
/// call site has a subscriber.
struct WarningRecorder;

static LOGGED: Mutex<Vec<(ThreadId, String)>> = Mutex::new(Vec::new());

/// Returns the warnings that this thread has logged since its first call.
pub(crate) fn warnings() -> Vec<String> {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        tracing::subscriber::set_global_default(WarningRecorder).expect("there is no other subscriber");
        tracing::callsite::rebuild_interest_cache();
    });
    let logged = LOGGED.lock().unwrap();
    logged.iter().filter(|(thread, _)| *thread == thread::current().id()).map(|(_, message)| message.clone()).collect()
}

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for WarningRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("tidegate")
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = String::new();
        event.record(&mut Message(&mut message));
        LOGGED.lock().unwrap().push((thread::current().id(), message));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
