//! The controllers of the comparison.

use std::time::Duration;

use tidegate::concurrency::{Aimd, Concurrency, Gradient2, Vegas};

use super::Server;
use super::reference::{EnvoyGradient, NetflixGradient2};

/// A controller in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    /// No limit.
    Nothing,
    /// [`Aimd`] with a target latency of a tenth above the latency without load.
    Aimd,
    /// [`Gradient2`] with its defaults.
    Gradient2,
    /// [`Vegas`] with its defaults.
    Vegas,
    /// Gradient2 with Netflix's rules and numbers, updated by each sample.
    Netflix,
    /// Netflix's Gradient2, updated once a second.
    NetflixWindowed,
    /// The gradient of Envoy's filter.
    Envoy,
}

impl Contender {
    /// The controllers of this crate.
    pub const OURS: [Contender; 3] = [Contender::Aimd, Contender::Gradient2, Contender::Vegas];

    /// Published controllers, to compare with.
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
