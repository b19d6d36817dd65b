//! The controllers that are compared.

use std::time::Duration;

use tidegate::concurrency::{Aimd, Concurrency, Gradient2, Vegas};

use super::Server;
use super::reference::{EnvoyGradient, NetflixGradient2};

/// What a limit is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    /// No limit at all.
    Nothing,
    /// [`Aimd`], told that an answer may take a tenth longer than without load.
    Aimd,
    /// [`Gradient2`] as it comes.
    Gradient2,
    /// [`Vegas`] as it comes.
    Vegas,
    /// Gradient2 with Netflix's rules and numbers, moved by each sample.
    Netflix,
    /// The same, moved once a second.
    NetflixWindowed,
    /// The gradient of Envoy's filter.
    Envoy,
}

impl Contender {
    /// The controllers of this crate.
    pub const OURS: [Contender; 3] = [Contender::Aimd, Contender::Gradient2, Contender::Vegas];

    /// What others have published, to compare with.
    pub const PUBLISHED: [Contender; 3] = [Contender::Netflix, Contender::NetflixWindowed, Contender::Envoy];

    /// The name in pictures and tables.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Nothing => "no limit",
            Contender::Aimd => "Aimd",
            Contender::Gradient2 => "Gradient2",
            Contender::Vegas => "Vegas",
            Contender::Netflix => "Netflix's Gradient2",
            Contender::NetflixWindowed => "the same, once a second",
            Contender::Envoy => "Envoy's gradient",
        }
    }

    /// The limit in front of a server.
    pub fn limit(self, server: &Server) -> Concurrency {
        match self {
            Contender::Nothing => Concurrency::fixed(u32::MAX),
            Contender::Aimd => Concurrency::adaptive(
                Aimd::default().target(Duration::from_micros(server.unloaded_latency() * 11 / 10)),
            ),
            Contender::Gradient2 => Concurrency::adaptive(Gradient2::default()),
            Contender::Vegas => Concurrency::adaptive(Vegas::default()),
            Contender::Netflix => Concurrency::adaptive(NetflixGradient2::default()),
            Contender::NetflixWindowed => Concurrency::adaptive(NetflixGradient2::windowed()),
            Contender::Envoy => Concurrency::adaptive(EnvoyGradient::default()),
        }
    }
}
