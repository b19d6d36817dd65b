//! `tidegate serve` compared with other servers, in turn, with the same load tool on the same two cores.

mod bare;
mod contest;
mod frames;
mod grpc;
mod http;
mod limitador;
mod resp;

use std::fs;
use std::path::Path;
use std::process::Command;

use tidegate_servers::{Program, required_env};

pub(crate) use bare::serve as bare;
pub(crate) use limitador::serve as limitador;

use crate::machine::pin;

/// The number of keys. Each is requested equally often.
const KEYS: u64 = 1_000_000;
/// A quota beyond all requests, so that every request is allowed. It is the capacity and the rate a minute.
const LARGE_QUOTA: u32 = 1_000_000;

/// Runs all parts, or those with this prefix.
pub(crate) fn run(only: &str) {
    crate::is_one_of(only, &["resp", "http", "grpc"]);
    // Servers and load tools share two cores, even on a larger machine.
    pin([0, 1]);
    println!("\ntidegate serve and its peers in turn, over loopback, each on the two cores of its load tool.");
    println!("{KEYS} keys, every request allowed, the state in memory. CPU is the server's own, user and system.");
    println!("`tool` is the load tool's share of one core: near 100 % the tool is the bottleneck, and not the server.");
    println!(
        "Servers have their defaults: half as many threads as cores for tidegate, and one for each core for its gRPC and for"
    );
    println!(
        "the peers. Then they have the other number. The load tools have one thread. Ratios are to the first line."
    );
    if "resp".starts_with(only) {
        resp::run();
    }
    if "http".starts_with(only) {
        http::run();
    }
    if "grpc".starts_with(only) {
        grpc::run();
    }
}

/// Starts `tidegate serve` twice for one protocol: with its defaults, and with that many threads. The first of the
/// files is its config.
fn start_tidegates(protocol: &str, config: &[(&str, &str)], threads: &str) -> [Program; 2] {
    [start_tidegate(protocol, config, &[]), start_tidegate(protocol, config, &["--threads", threads])]
}

pub(crate) fn start_tidegate(protocol: &str, config: &[(&str, &str)], threads: &[&str]) -> Program {
    let program = std::env::current_exe().expect("this program").with_file_name("tidegate");
    assert!(program.is_file(), "{} is missing: run `cargo xtask bench serve`", program.display());
    let command = |port: u16, folder: &Path| {
        let mut command = Command::new(&program);
        command.arg("serve").args(threads).args(["--max-keys", &(4 * KEYS).to_string()]);
        for other in ["http", "grpc", "resp"] {
            let address = if other == protocol { format!("127.0.0.1:{port}") } else { "off".to_owned() };
            command.arg(format!("--{other}")).arg(address);
        }
        for (name, text) in config {
            fs::write(folder.join(name), text).expect("a folder of its own");
        }
        if let Some((name, _)) = config.first() {
            command.args(["--config", name]);
        }
        command
    };
    Program::start("serve", command).expect("tidegate serve")
}

/// Starts throttlecrab's server twice for one protocol: with its default of a thread for each core, and with one
/// thread.
fn start_throttlecrabs(protocol: &str) -> [Program; 2] {
    [start_throttlecrab(protocol, &[]), start_throttlecrab(protocol, &ONE_THREAD)]
}

/// The variable that gives a server on tokio's own runtime one thread.
const ONE_THREAD: [(&str, &str); 1] = [("TOKIO_WORKER_THREADS", "1")];

/// Starts one of the servers of this program.
fn start_own_server(server: &str, variables: &[(&str, &str)]) -> Program {
    let command = |port: u16, _: &Path| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["serve", server, &port.to_string()]).envs(variables.iter().copied());
        command
    };
    Program::start(server, command).expect("this program")
}

fn start_throttlecrab(protocol: &str, variables: &[(&str, &str)]) -> Program {
    let program = required_env("TIDEGATE_THROTTLECRAB");
    let command = |port: u16, _: &Path| {
        let mut command = Command::new(&program);
        command.envs(variables.iter().copied());
        command.args([format!("--{protocol}"), format!("--{protocol}-host"), "127.0.0.1".to_owned()]);
        command.args([format!("--{protocol}-port"), port.to_string()]);
        command.args(["--store-capacity", &(4 * KEYS).to_string()]);
        command
    };
    Program::start("throttlecrab", command).expect("throttlecrab-server")
}
