//! What is done about signals, and about a config that changes.

use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{error, info, warn};

use super::gate::Gate;
use super::served::{Served, said};
use crate::failure::Failure;

/// How often the files of the config are looked at. What they say is compared and not when they were written: that
/// is what works with links that are switched over, as Kubernetes does, and with every file system.
const LOOK: Duration = Duration::from_secs(1);

/// How close together two signals are one.
const TOGETHER: Duration = Duration::from_millis(500);

/// The signals that mean something.
pub(super) struct Signals {
    pub(super) end: End,
    hang_up: Signal,
}

/// Those that say that it is over.
pub(super) struct End {
    terminate: Signal,
    interrupt: Signal,
}

impl End {
    /// Waits for one of them.
    pub(super) async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for one more. One that comes together with the first is the same: Ctrl-C tells every process of a terminal, and
    /// a supervisor among them tells the others again.
    pub(super) async fn told_again(&mut self) {
        let same = Instant::now() + TOGETHER;
        self.told().await;
        while Instant::now() < same {
            self.told().await;
        }
    }
}

impl Signals {
    pub(super) fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::Start(format!("no signals: {error}")));
        let end = End { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? };
        Ok(Signals { end, hang_up: listen(SignalKind::hangup())? })
    }
}

/// Waits until a signal says that it is over, and reads the config again meanwhile.
pub(super) async fn until_told_to_end(signals: &mut Signals, config: Option<&Path>, gate: &Gate) {
    let Signals { end, hang_up } = signals;
    // Side by side: a file system that does not answer is no reason not to end.
    tokio::select! {
        () = end.told() => {}
        () = keep_up(hang_up, config, gate) => {}
    }
}

/// Reads the config again when it changes and when a signal says so, for as long as it is waited for.
async fn keep_up(hang_up: &mut Signal, config: Option<&Path>, gate: &Gate) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Of what was read, and not of what is there by now: a change in between is a change.
    let mut noticed = Noticed::new(gate.served.load().seen.clone());
    loop {
        tokio::select! {
            _ = hang_up.recv() => {
                info!("SIGHUP: the config is read again");
                noticed = Noticed::new(reload(config, gate).await);
            }
            _ = looks.tick(), if config.is_some() => {
                if noticed.is_new(fingerprint(config, gate).await) {
                    info!("the config has changed: it is read again");
                    noticed = Noticed::new(reload(config, gate).await);
                }
            }
        }
    }
}

/// What the files of a config say, each with nothing if it cannot be read.
type Said = Vec<Option<Vec<u8>>>;

/// A change that is waited for until it is whole. Most programs empty a file before they write it, and what is there in between
/// can look like a config with fewer limits, or none.
struct Noticed {
    known: Said,
    /// What was there at the last look, if it was something else.
    changing: Option<Said>,
}

impl Noticed {
    fn new(known: Said) -> Self {
        Noticed { known, changing: None }
    }

    /// Whether this is not what is known, and was there at the look before, too.
    fn is_new(&mut self, now: Said) -> bool {
        let changing = (now != self.known).then_some(now);
        let is_whole = changing.is_some() && changing == self.changing;
        self.changing = changing;
        is_whole
    }
}

/// What the files of the config say, to tell whether that has changed.
async fn fingerprint(config: Option<&Path>, gate: &Gate) -> Said {
    let Some(config) = config else { return Vec::new() };
    let (config, served) = (config.to_owned(), gate.served.load_full());
    let read = move || {
        let said = said(&config);
        // One that has changed and is not served may name other files, for whose change it waits.
        let files = match served.seen.first() {
            Some(seen) if *seen == said || said.is_none() => served.files.clone(),
            _ => Served::files_of(&config).unwrap_or_else(|_| served.files.clone()),
        };
        let files = files.iter().map(|file| self::said(file));
        std::iter::once(said).chain(files).collect()
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

/// Puts the config as it is now in the place of the one that is served; or says what is wrong with it and changes nothing.
/// Returns what the files said.
async fn reload(config: Option<&Path>, gate: &Gate) -> Said {
    let Some(config) = config else {
        warn!("there is no config to read: it is the built-in one");
        return Vec::new();
    };
    let seen = fingerprint(Some(config), gate).await;
    let path = config.to_owned();
    let loaded = tokio::task::spawn_blocking(move || Served::load(Some(&path))).await;
    let served = match loaded.map_err(|error| error.to_string()).and_then(|read| read.map_err(|e| e.to_string())) {
        Ok(served) => served,
        Err(errors) => {
            refuse(gate, &errors);
            return seen;
        }
    };
    match gate.adopt(served).await {
        Ok(()) => {
            info!(limits = gate.served.load().count, "the new config is served");
            gate.served.load().seen.clone()
        }
        Err(error) => {
            refuse(gate, &error.to_string());
            seen
        }
    }
}

fn refuse(gate: &Gate, errors: &str) {
    gate.watch.reload_failed(errors);
    error!("the new config is wrong, and the old one stays:\n{errors}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_written_is_not_read() {
        let said = |text: &str| vec![Some(text.as_bytes().to_vec())];
        let mut noticed = Noticed::new(said("old"));
        assert!(!noticed.is_new(said("old")));
        assert!(!noticed.is_new(said("")), "it was emptied");
        assert!(!noticed.is_new(said("n")), "it is being written");
        assert!(!noticed.is_new(said("new")));
        assert!(noticed.is_new(said("new")));

        let mut noticed = Noticed::new(said("old"));
        assert!(!noticed.is_new(vec![None]));
        assert!(!noticed.is_new(said("old")), "it is back");
        assert!(!noticed.is_new(vec![None]), "and away once more");
        assert!(noticed.is_new(vec![None]), "for good");
    }
}
