//! Reloads the config when a file changes and on SIGHUP, until a signal ends the server.

use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{error, info, warn};

use super::App;
use super::config::{ActiveConfig, FileContents, read_file};
use crate::Failure;

/// How often the files of the config are read. Contents are compared instead of times, because that works with symbolic
/// links that are switched, as in Kubernetes, and on every file system.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Two signals within this time count as one.
const SIGNAL_MERGE_WINDOW: Duration = Duration::from_millis(500);

/// The signals that the server handles.
pub(crate) struct Signals {
    pub(crate) end: EndSignals,
    hang_up: Signal,
}

/// The signals that end the server: SIGTERM and SIGINT.
pub(crate) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    /// Waits for one of them.
    pub(crate) async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for a second one. Two in quick succession are the same: Ctrl-C signals every process of a terminal, and a
    /// supervisor among them signals its children again.
    pub(crate) async fn recv_again(&mut self) {
        let same_until = Instant::now() + SIGNAL_MERGE_WINDOW;
        self.recv().await;
        while Instant::now() < same_until {
            self.recv().await;
        }
    }
}

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::Start(format!("no signals: {error}")));
        let end =
            EndSignals { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? };
        Ok(Signals { end, hang_up: listen(SignalKind::hangup())? })
    }
}

/// Waits for a signal that ends the server, and keeps the config up to date meanwhile.
pub(crate) async fn wait_for_end_signal(signals: &mut Signals, config: Option<&Path>, app: &App) {
    let Signals { end, hang_up } = signals;
    // Concurrently: a file system that does not answer must not delay the end.
    tokio::select! {
        () = end.recv() => {}
        () = watch_config(hang_up, config, app) => {}
    }
}

/// Reloads the config when it changes and on SIGHUP, forever.
async fn watch_config(hang_up: &mut Signal, config: Option<&Path>, app: &App) {
    let mut polls = interval(POLL_INTERVAL);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Starts from the contents that were loaded, so that a change since then is noticed.
    let mut watcher = ChangeDetector::new(app.config.load().contents.clone());
    loop {
        tokio::select! {
            _ = hang_up.recv() => {
                info!("SIGHUP: the config is read again");
                watcher = ChangeDetector::new(reload(config, app).await);
            }
            _ = polls.tick(), if config.is_some() => {
                if watcher.is_stable_change(read_files(config, app).await) {
                    info!("the config has changed: it is read again");
                    watcher = ChangeDetector::new(reload(config, app).await);
                }
            }
        }
    }
}

/// Detects a change once it is complete. Most programs truncate a file before they write it, and a part of a config can
/// look like one with fewer limits, or none.
struct ChangeDetector {
    known: FileContents,
    /// The contents of the last poll, if they differ from the known ones.
    changing: Option<FileContents>,
}

impl ChangeDetector {
    fn new(known: FileContents) -> Self {
        ChangeDetector { known, changing: None }
    }

    /// Whether the contents differ from the known ones and are the same as in the poll before.
    fn is_stable_change(&mut self, now: FileContents) -> bool {
        let changing = (now != self.known).then_some(now);
        let is_stable = changing.is_some() && changing == self.changing;
        self.changing = changing;
        is_stable
    }
}

/// Reads the files of the config.
async fn read_files(config: Option<&Path>, app: &App) -> FileContents {
    let Some(config) = config else { return Vec::new() };
    let (config, active) = (config.to_owned(), app.config.load_full());
    let read = move || {
        let main = read_file(&config);
        // A changed config that is not active may name other files, whose changes count, too.
        let files = match active.contents.first() {
            Some(known) if *known == main || main.is_none() => active.files.clone(),
            _ => ActiveConfig::files_of(&config).unwrap_or_else(|_| active.files.clone()),
        };
        std::iter::once(main).chain(files.iter().map(|file| read_file(file))).collect()
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}

/// Makes the config in the files active, or reports what is wrong and changes nothing. Returns the contents of the files.
async fn reload(config: Option<&Path>, app: &App) -> FileContents {
    let Some(config) = config else {
        warn!("there is no config to read: it is the built-in one");
        return Vec::new();
    };
    let contents = read_files(Some(config), app).await;
    let path = config.to_owned();
    let loaded = tokio::task::spawn_blocking(move || ActiveConfig::reload(&path)).await;
    let loaded = match loaded.map_err(|error| error.to_string()).flatten() {
        Ok(loaded) => loaded,
        Err(errors) => {
            report_failure(app, &errors);
            return contents;
        }
    };
    match app.activate(loaded).await {
        Ok(()) => {
            info!(limits = app.config.load().limit_count, "the new config is served");
            app.config.load().contents.clone()
        }
        Err(error) => {
            report_failure(app, &error.to_string());
            contents
        }
    }
}

fn report_failure(app: &App, errors: &str) {
    app.stats.reloads.record_failure(errors);
    error!("the new config is wrong, and the old one stays:\n{errors}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partly_written_config_is_not_loaded() {
        let contents = |text: &str| vec![Some(text.as_bytes().to_vec())];
        let mut watcher = ChangeDetector::new(contents("old"));
        assert!(!watcher.is_stable_change(contents("old")));
        assert!(!watcher.is_stable_change(contents("")), "it was emptied");
        assert!(!watcher.is_stable_change(contents("n")), "it is being written");
        assert!(!watcher.is_stable_change(contents("new")));
        assert!(watcher.is_stable_change(contents("new")));

        let mut watcher = ChangeDetector::new(contents("old"));
        assert!(!watcher.is_stable_change(vec![None]));
        assert!(!watcher.is_stable_change(contents("old")), "it is back");
        assert!(!watcher.is_stable_change(vec![None]), "and away once more");
        assert!(watcher.is_stable_change(vec![None]), "for good");
    }
}
