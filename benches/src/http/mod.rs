//! axum with a limit in front of it, beside axum alone and beside `tower_governor`, over sockets in one run.

mod load;
mod server;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use load::Clients;
pub(crate) use server::serve;

use crate::machine::pin;
use crate::workload::{beside, median};

/// Connections that are open at once, each with one request under way.
const CONNECTIONS: usize = 64;
/// How long each server is asked in each round.
const SPAN: Duration = Duration::from_millis(100);
/// Rounds: short ones, and many.
const ROUNDS: usize = 81;

pub(crate) fn run() {
    println!(
        "\nRequests a second over {CONNECTIONS} connections (HTTP/1.1) of a server with one thread, and its CPU time for"
    );
    println!(
        "one of them: the median of {ROUNDS} rounds, in each of which all servers are asked in turn, and of what they are"
    );
    println!("beside bare axum in the same round. They answer `ok` when they admit.");
    // On a core of its own, so that asking does not take from answering.
    pin([1]);
    let mut servers: Vec<Server> = server::Kind::ALL.into_iter().map(Server::start).collect();
    for _ in 0..ROUNDS {
        servers.iter_mut().for_each(Server::measure);
    }
    let bare = &servers[0];
    println!("\n{:<42} {:>9} {:>10} {:>9} {:>10}", "", "a second", "of bare", "CPU µs", "of bare");
    for Server { kind, rates, costs, .. } in &servers {
        let (rate, cost) = (median(rates.iter().copied()), median(costs.iter().copied()) / 1_000.0);
        let (faster, dearer) = (beside(rates, &bare.rates), beside(costs, &bare.costs));
        println!("{:<42} {rate:>9.0} {faster:>9.2}x {cost:>9.2} {dearer:>9.2}x", kind.name());
    }
}

/// A server in a process of its own.
struct Server {
    kind: server::Kind,
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
    address: SocketAddr,
    /// Requests a second, in each round.
    rates: Vec<f64>,
    /// Nanoseconds of CPU time for one of them, in each round.
    costs: Vec<f64>,
}

impl Server {
    fn start(kind: server::Kind) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["http", kind.name()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let ask = child.stdin.take().expect("piped");
        let mut answers = BufReader::new(child.stdout.take().expect("piped"));
        let address = read(&mut answers).parse().expect("an address");
        Server { kind, child, ask, answers, address, rates: Vec::new(), costs: Vec::new() }
    }

    fn measure(&mut self) {
        let clients = Clients::connect(self.address, CONNECTIONS);
        let (cpu, start) = (self.cpu_time(), Instant::now());
        let requests = clients.ask(SPAN, self.kind.status()) as f64;
        let (elapsed, cpu) = (start.elapsed(), self.cpu_time() - cpu);
        self.rates.push(requests / elapsed.as_secs_f64());
        self.costs.push(cpu / requests);
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
