//! Why the program ends early.

use std::io;

use tidegate::config::ConfigErrors;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Something in a config, one line for each error.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// What is wrong was said already.
    #[error("bad input")]
    Told,
    /// Something in a trace: `TRACE:LINE:COLUMN: what is wrong`.
    #[error("{0}")]
    Input(String),
    /// A store that cannot be used: what is wrong, and what to do next.
    #[error("{0}")]
    Store(String),
    /// Why a server cannot start: what is wrong, and what to do next.
    #[error("{0}")]
    Start(String),
    /// Why a load cannot be put on a server: what is wrong, and what to do next.
    #[error("{0}")]
    Load(String),
    /// Arguments that do not go together.
    #[error(transparent)]
    Usage(clap::Error),
    /// Standard output was closed by whoever read it.
    #[error("standard output was closed")]
    ReaderLeft,
    /// Standard output could not be written.
    #[error("standard output cannot be written: {0}")]
    Output(io::Error),
}

impl Failure {
    /// Standard output could not be written, for good reasons or bad ones.
    pub(crate) fn of_output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
            _ => Failure::Output(error),
        }
    }
}
