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

/// Connections that are open at once, each with one request under way.
const CONNECTIONS: usize = 64;
/// How long each server is asked in each round.
const SPAN: Duration = Duration::from_millis(20);
/// And before that, unmeasured: whoever was asked before it has left other things in the cache.
const WARMUP_SPAN: Duration = Duration::from_millis(3);
/// How often the process with all of them is started: where it happens to have its code and its memory makes it some
/// hundredths faster or slower for as long as it lives.
const STARTS: usize = 25;
/// Rounds with the same process: short ones.
const ROUNDS: usize = 45;
/// How many requests each server has answered before it is measured. With so many a layer has made itself at home: that of
/// tidegate looks for signs of a forgotten proxy in the first hundred thousand.
const WARMUP_REQUESTS: u64 = 100_000;

pub(crate) fn run() {
    println!();
    for line in [
        format!(
            "Requests a second over {CONNECTIONS} connections (HTTP/1.1) of servers in one process and one thread, and"
        ),
        format!(
            "their CPU time for one of them: the median of {STARTS} times {ROUNDS} rounds, in each of which all are asked"
        ),
        "in turn, and of what they are beside bare axum in the same round; the process is started again for each of"
            .into(),
        format!(
            "the {STARTS}, and each server has answered {WARMUP_REQUESTS} requests before it is measured. They answer `ok` when they"
        ),
        format!("admit, unless it says otherwise, and know one client, by its address, or {KEYS} users, by a header."),
        "A layer is one of the router's (`Router::layer`), which boxes what it makes, or is around the router.".into(),
    ] {
        println!("{line}");
    }
    // On a core of its own, so that asking does not take from answering.
    pin([1]);
    // The connections to all servers stay open.
    allow_many_files();
    let mut samples: Vec<Samples> = ServerKind::ALL.into_iter().map(Samples::new).collect();
    for start in 0..STARTS {
        let mut servers = Servers::start(start);
        for round in 0..ROUNDS {
            // Another one begins each time, and every other time the other way round: neither a host that gets slower nor
            // whom a server comes after is to count for one of them only.
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

/// Those that are to be told apart, one beside the other in the same rounds.
fn print_pairs(samples: &[Samples]) {
    let of = |kind| samples.iter().find(|samples| samples.kind == kind).expect("all were measured");
    let rates = |one, other| mean_beside(&of(one).rates, &of(other).rates);
    let costs = |one, other| mean_beside(&of(one).costs, &of(other).costs);
    println!("\nOne beside another in the same rounds: the mean of {STARTS} starts, and its 95 % confidence interval");
    println!("Requests, tidegate of tower_governor");
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
        ("  a million users, as both come", rates(ServerKind::UsersTidegate, ServerKind::UsersGovernor)),
        ("CPU, a denial of an admission with headers", costs(ServerKind::TidegateDenied, ServerKind::Tidegate)),
        ("  both around the router", costs(ServerKind::AroundTidegateDenied, ServerKind::AroundTidegate)),
        ("  of one with a body as long", costs(ServerKind::TidegateDenied, ServerKind::TidegateLong)),
    ] {
        println!("{what:<50} {mean:>7.3}x ({least:.3} to {most:.3})");
    }
}

/// What the one is of the other: in each start the median of its rounds, and of these the mean, with its confidence interval.
fn mean_beside(one: &[f64], other: &[f64]) -> [f64; 3] {
    // How many standard errors that is to either side, for so many starts.
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
    /// Requests a second, in each round.
    rates: Vec<f64>,
    /// Nanoseconds of CPU time for one of them, in each round.
    costs: Vec<f64>,
}

impl Samples {
    fn new(kind: ServerKind) -> Self {
        Samples { kind, rates: Vec::new(), costs: Vec::new() }
    }
}

/// All servers, in one process and one thread, so that they have all but their own part in common. One is asked at a time.
struct Servers {
    child: Child,
    input: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Of each of them.
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

    /// Nanoseconds of CPU time that the process has used by now.
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
