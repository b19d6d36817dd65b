//! The warnings and errors that this thread has logged through `tracing`.

use std::fmt::Debug;
use std::sync::{Mutex, OnceLock};
use std::thread::{self, ThreadId};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps the messages of all warnings, and who gave them. It is the whole program's: what is asked by one thread only may
/// be taken for what nobody asks when another comes first to the place that warns.
struct Warnings;

static GIVEN: Mutex<Vec<(ThreadId, String)>> = Mutex::new(Vec::new());

/// What this thread has warned of since it first asked here.
pub(crate) fn warnings() -> Vec<String> {
    static LISTENING: OnceLock<()> = OnceLock::new();
    LISTENING.get_or_init(|| {
        tracing::subscriber::set_global_default(Warnings).expect("nobody else listens");
        tracing::callsite::rebuild_interest_cache();
    });
    let given = GIVEN.lock().unwrap();
    given.iter().filter(|(thread, _)| *thread == thread::current().id()).map(|(_, said)| said.clone()).collect()
}

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("tidegate")
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = String::new();
        event.record(&mut Message(&mut message));
        GIVEN.lock().unwrap().push((thread::current().id(), message));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
