//! Requests per second of axum with a limit, compared with plain axum and with `tower_governor`, over sockets.

mod load;
mod server;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use load::Clients;
use server::ServerKind;
pub(crate) use server::serve;

use crate::machine::{allow_many_files, pin};
use crate::workload::{KEYS, median, median_ratio};

/// The number of open connections, each with one request in flight.
const CONNECTIONS: usize = 64;
/// The measured time of each server in each round.
const SPAN: Duration = Duration::from_millis(20);
/// The unmeasured time before it. The server before has left other data in the cache.
const WARMUP_SPAN: Duration = Duration::from_millis(3);
/// The number of times that the process with all servers is started. The addresses of its code and memory make it a few
/// percent faster or slower for its whole life.
const STARTS: usize = 25;
/// The number of rounds in one process. They are short.
const ROUNDS: usize = 45;
/// The number of requests that each server answers before its measurement. Tidegate's layer looks for signs of an
/// untrusted proxy in the first hundred thousand requests.
const WARMUP_REQUESTS: u64 = 100_000;

pub(crate) fn run() {
    println!();
    for line in [
        format!(
            "Requests a second over {CONNECTIONS} connections (HTTP/1.1), with all servers in one process and one thread, and"
        ),
        format!(
            "the CPU time of a request: the median of {STARTS} times {ROUNDS} rounds. All servers have a turn in each round. The"
        ),
        format!(
            "ratios are to bare axum in that round. The process is started {STARTS} times, and each server answers"
        ),
        format!(
            "{WARMUP_REQUESTS} requests before its measurement. Servers answer `ok`, except for denials. They know"
        ),
        format!("one client, by its address, or {KEYS} users, by a header."),
        "A layer is inside the router (`Router::layer`), which boxes its responses, or around the router.".into(),
    ] {
        println!("{line}");
    }
    // The client runs on a core of its own, so it takes no time from the servers.
    pin([1]);
    // The connections to all servers stay open.
    allow_many_files();
    let mut samples: Vec<Samples> = ServerKind::ALL.into_iter().map(Samples::new).collect();
    for start in 0..STARTS {
        let mut servers = Servers::start(start);
        for round in 0..ROUNDS {
            // Each round starts with another server, and every second round runs in reverse. So neither a host that
            // slows down nor the preceding server affects always the same one.
            let (count, first) = (samples.len(), (start + round) % samples.len());
            for place in 0..count {
                let place = if round % 2 == 0 { place } else { count - place };
                let index = (first + place) % count;
                servers.measure(index, &mut samples[index]);
            }
        }
    }
    let bare = &samples[0];
    println!("\n{:<46} {:>9} {:>10} {:>9} {:>10}", "", "a second", "of bare", "CPU µs", "of bare");
    for Samples { kind, rates, costs } in &samples {
        let (rate, cost) = (median(rates.iter().copied()), median(costs.iter().copied()) / 1_000.0);
        let (faster, dearer) = (median_ratio(rates, &bare.rates), median_ratio(costs, &bare.costs));
        println!("{:<46} {rate:>9.0} {faster:>9.3}x {cost:>9.2} {dearer:>9.3}x", kind.name());
    }
    print_pairs(&samples);
}

/// Prints pairs of servers that are measured next to each other in the same rounds.
fn print_pairs(samples: &[Samples]) {
    let of = |kind| samples.iter().find(|samples| samples.kind == kind).expect("all were measured");
    let rates = |one, other| mean_beside(&of(one).rates, &of(other).rates);
    let costs = |one, other| mean_beside(&of(one).costs, &of(other).costs);
    println!("\nPairs measured in common rounds: the mean of {STARTS} starts, and its 95 % confidence interval");
    println!("Requests a second, ratio of tidegate to tower_governor");
    for (what, [least, mean, most]) in [
        ("  one client, both with headers", rates(ServerKind::Tidegate, ServerKind::GovernorHeaders)),
        ("  one client, both without", rates(ServerKind::TidegateSilent, ServerKind::Governor)),
        (
            "  around the router, both with headers",
            rates(ServerKind::AroundTidegate, ServerKind::AroundGovernorHeaders),
        ),
        ("  around the router, both without", rates(ServerKind::AroundTidegateSilent, ServerKind::AroundGovernor)),
        ("  a million users, both with headers", rates(ServerKind::UsersTidegate, ServerKind::UsersGovernorHeaders)),
        ("  a million users, both without", rates(ServerKind::UsersTidegateSilent, ServerKind::UsersGovernor)),
        ("  a million users, both with defaults", rates(ServerKind::UsersTidegate, ServerKind::UsersGovernor)),
        ("CPU, a denial to an admission, with headers", costs(ServerKind::TidegateDenied, ServerKind::Tidegate)),
        ("  both around the router", costs(ServerKind::AroundTidegateDenied, ServerKind::AroundTidegate)),
        ("  to an admission with a body of that length", costs(ServerKind::TidegateDenied, ServerKind::TidegateLong)),
    ] {
        println!("{what:<50} {mean:>7.3}x ({least:.3} to {most:.3})");
    }
}

/// Returns the ratio of one to the other: the mean over all starts of the median of their rounds, with its confidence
/// interval.
fn mean_beside(one: &[f64], other: &[f64]) -> [f64; 3] {
    // The half width of the interval in standard errors, for this number of starts.
    const T_QUANTILE: f64 = 2.064;
    const { assert!(STARTS == 25) };
    let starts: Vec<_> =
        one.chunks(ROUNDS).zip(other.chunks(ROUNDS)).map(|(one, other)| median_ratio(one, other)).collect();
    let count = starts.len() as f64;
    let mean = starts.iter().sum::<f64>() / count;
    let variance = starts.iter().map(|start| (start - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let error = T_QUANTILE * (variance / count).sqrt();
    [mean - error, mean, mean + error]
}

/// The samples of one kind of server.
struct Samples {
    kind: ServerKind,
    /// The requests a second in each round.
    rates: Vec<f64>,
    /// The CPU time of one request in each round, in nanoseconds.
    costs: Vec<f64>,
}

impl Samples {
    fn new(kind: ServerKind) -> Self {
        Samples { kind, rates: Vec::new(), costs: Vec::new() }
    }
}

/// All servers, in one process and one thread, so that they differ only in their own code. One is measured at a time.
struct Servers {
    child: Child,
    input: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The clients of each server.
    clients: Vec<Clients>,
}

impl Servers {
    fn start(start: usize) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.args(["http", "serve", &start.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let input = child.stdin.take().expect("piped");
        let mut answers = BufReader::new(child.stdout.take().expect("piped"));
        let connect = |address: &str| Clients::connect(address.parse().expect("an address"), CONNECTIONS);
        let mut clients: Vec<_> = read(&mut answers).split(' ').map(connect).collect();
        for (kind, clients) in ServerKind::ALL.into_iter().zip(&mut clients) {
            let mut answered = 0;
            while answered < WARMUP_REQUESTS {
                answered += clients.run(SPAN, kind.status());
            }
        }
        Servers { child, input, answers, clients }
    }

    fn measure(&mut self, index: usize, samples: &mut Samples) {
        self.clients[index].run(WARMUP_SPAN, samples.kind.status());
        let (cpu, start) = (self.cpu_time(), Instant::now());
        let requests = self.clients[index].run(SPAN, samples.kind.status()) as f64;
        let (elapsed, cpu) = (start.elapsed(), self.cpu_time() - cpu);
        samples.rates.push(requests / elapsed.as_secs_f64());
        samples.costs.push(cpu / requests);
    }

    /// Returns the CPU time of the process so far, in nanoseconds.
    fn cpu_time(&mut self) -> f64 {
        self.input.write_all(b"\n").expect("the server listens");
        read(&mut self.answers).parse().expect("a number")
    }
}

impl Drop for Servers {
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
