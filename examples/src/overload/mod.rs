//! The behaviour of concurrency controllers under overload, as a picture and as figures.
//!
//! The limits are real: a [`Concurrency`](tidegate::concurrency::Concurrency) with its permits, on a clock that is set
//! to the time of each event. Only the server and its clients are simulated.

mod contender;
mod draw;
mod event;
mod figures;
mod reference;
mod run;
mod server;

pub use contender::Contender;
pub use figures::{Figures, SERVERS, settled, sustained_overload, table};
pub use run::{Moment, Scene};
pub use server::Server;

/// The path of the picture in the repository.
pub const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures/overload.svg");

/// Returns the picture of a step overload as an SVG, the same in every run.
pub fn picture() -> String {
    let server = Server { workers: 8, work: 5_000, wait: 15_000 };
    let load = vec![(0.5, 10), (3.0, 25), (0.5, 15)];
    let scene = Scene { server, load, outage: None, client_timeout: 1_000_000, seed: 1 };
    let contenders = [&[Contender::Nothing], &Contender::OURS[..]].concat();
    let runs = contenders.into_iter().map(|contender| (contender, scene.play(contender.limit(&server))));
    draw::picture(&scene, &runs.collect::<Vec<_>>())
}
