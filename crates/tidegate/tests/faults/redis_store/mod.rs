//! The Redis store while its servers break.

mod clock;
mod cluster;
mod foreign_values;
mod http_layer;
mod leases;
mod scripts;
mod server;
mod single_server;
