//! axum with a limit in front of it, beside axum alone and beside `tower_governor`, over sockets in one run.

mod load;
mod server;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use load::Clients;
use server::Kind;
pub(crate) use server::serve;

use crate::machine::pin;
use crate::workload::{beside, median};

/// Connections that are open at once, each with one request under way.
const CONNECTIONS: usize = 64;
/// How long each server is asked in each round.
const SPAN: Duration = Duration::from_millis(100);
/// How often each server is started: where a process happens to have its code and its memory makes it some hundredths
/// faster or slower for as long as it lives.
const STARTS: usize = 25;
/// Rounds with the same processes: short ones.
const ROUNDS: usize = 9;
/// How many requests each process has answered before it is measured. With so many a layer has made itself at home: that of
/// tidegate looks for signs of a forgotten proxy in the first hundred thousand.
const BEFORE: u64 = 100_000;

pub(crate) fn run() {
    println!(
        "\nRequests a second over {CONNECTIONS} connections (HTTP/1.1) of a server with one thread, and its CPU time for"
    );
    println!(
        "one of them: the median of {STARTS} times {ROUNDS} rounds, in each of which all servers are asked in turn, and of what"
    );
    println!(
        "they are beside bare axum in the same round; all are started {STARTS} times, and have answered {BEFORE} requests"
    );
    println!("before they are measured. They answer `ok` when they admit.");
    // On a core of its own, so that asking does not take from answering.
    pin([1]);
    let mut found: Vec<Found> = Kind::ALL.into_iter().map(Found::new).collect();
    for start in 0..STARTS {
        let mut servers: Vec<Server> = found.iter().map(|found| Server::start(found.kind)).collect();
        for round in 0..ROUNDS {
            // Another one begins each time, and every other time the other way round: neither a host that gets slower nor
            // whom a server comes after is to count for one of them only.
            let (servers_in_all, first) = (servers.len(), (start + round) % servers.len());
            for place in 0..servers_in_all {
                let place = if round % 2 == 0 { place } else { servers_in_all - place };
                let index = (first + place) % servers_in_all;
                servers[index].measure(&mut found[index]);
            }
        }
    }
    let bare = &found[0];
    println!("\n{:<42} {:>9} {:>10} {:>9} {:>10}", "", "a second", "of bare", "CPU µs", "of bare");
    for Found { kind, rates, costs } in &found {
        let (rate, cost) = (median(rates.iter().copied()), median(costs.iter().copied()) / 1_000.0);
        let (faster, dearer) = (beside(rates, &bare.rates), beside(costs, &bare.costs));
        println!("{:<42} {rate:>9.0} {faster:>9.3}x {cost:>9.2} {dearer:>9.3}x", kind.name());
    }
    print_pairs(&found);
}

/// Those that are to be told apart, one beside the other in the same rounds.
fn print_pairs(found: &[Found]) {
    let of = |kind| found.iter().find(|found| found.kind == kind).expect("all were measured");
    let [told, silent, denied] = [Kind::Tidegate, Kind::TidegateSilent, Kind::TidegateDenied].map(of);
    let [peer_told, peer_silent] = [Kind::GovernorHeaders, Kind::Governor].map(of);
    println!("\nOne beside another in the same rounds: the mean of {STARTS} starts, and its 95 % confidence interval");
    for (what, [least, mean, most]) in [
        ("requests, both with headers: tidegate of tower_governor", mean_beside(&told.rates, &peer_told.rates)),
        ("requests, both without: tidegate of tower_governor", mean_beside(&silent.rates, &peer_silent.rates)),
        ("CPU: a denial of an admission with headers", mean_beside(&denied.costs, &told.costs)),
    ] {
        println!("{what:<60} {mean:>7.3}x ({least:.3} to {most:.3})");
    }
}

/// What the one is of the other: in each start the median of its rounds, and of these the mean, with its confidence interval.
fn mean_beside(one: &[f64], other: &[f64]) -> [f64; 3] {
    // How many standard errors that is to either side, for so many starts.
    const ERRORS: f64 = 2.064;
    const { assert!(STARTS == 25) };
    let starts: Vec<_> = one.chunks(ROUNDS).zip(other.chunks(ROUNDS)).map(|(one, other)| beside(one, other)).collect();
    let count = starts.len() as f64;
    let mean = starts.iter().sum::<f64>() / count;
    let variance = starts.iter().map(|start| (start - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let error = ERRORS * (variance / count).sqrt();
    [mean - error, mean, mean + error]
}

/// What was found of one kind of server.
struct Found {
    kind: Kind,
    /// Requests a second, in each round.
    rates: Vec<f64>,
    /// Nanoseconds of CPU time for one of them, in each round.
    costs: Vec<f64>,
}

impl Found {
    fn new(kind: Kind) -> Self {
        Found { kind, rates: Vec::new(), costs: Vec::new() }
    }
}

/// A server in a process of its own.
struct Server {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Server {
    fn start(kind: Kind) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["http", kind.name()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let ask = child.stdin.take().expect("piped");
        let mut answers = BufReader::new(child.stdout.take().expect("piped"));
        let address = read(&mut answers).parse().expect("an address");
        let mut answered = 0;
        while answered < BEFORE {
            answered += Clients::connect(address, CONNECTIONS).ask(SPAN, kind.status());
        }
        Server { child, ask, answers, address }
    }

    fn measure(&mut self, found: &mut Found) {
        let clients = Clients::connect(self.address, CONNECTIONS);
        let (cpu, start) = (self.cpu_time(), Instant::now());
        let requests = clients.ask(SPAN, found.kind.status()) as f64;
        let (elapsed, cpu) = (start.elapsed(), self.cpu_time() - cpu);
        found.rates.push(requests / elapsed.as_secs_f64());
        found.costs.push(cpu / requests);
    }

    /// Nanoseconds of CPU time that the server has used by now.
    fn cpu_time(&mut self) -> f64 {
        self.ask.write_all(b"\n").expect("the server listens");
        read(&mut self.answers).parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(answers: &mut impl BufRead) -> String {
    let mut line = String::new();
    answers.read_line(&mut line).expect("the server answers");
    line.trim().to_owned()
}
