//! The Redis store while servers break.

mod clock;
mod cluster;
mod layer;
mod scripts;
mod server;
mod single;
mod stored;
