//! The machine of a benchmark: pinning to cores, CPU time of processes, and time stolen by the host.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Pins this thread and its children to these cores. Does nothing if a core does not exist.
pub(crate) fn pin(cores: impl IntoIterator<Item = usize>) {
    let mut set = rustix::thread::CpuSet::new();
    cores.into_iter().for_each(|core| set.set(core));
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Raises the limit of open files of this process and its children as far as the system permits.
pub(crate) fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns the CPU time of a process so far in seconds, in user mode and in the kernel.
pub(crate) fn cpu_seconds(process: u32) -> f64 {
    cpu_seconds_of(&process.to_string(), 2)
}

/// Returns the CPU time of this process and of its finished children, in seconds.
pub(crate) fn own_cpu_seconds() -> f64 {
    cpu_seconds_of("self", 4)
}

/// Returns the sum of the first `count` CPU times of a process: user, kernel, and both for its finished children.
fn cpu_seconds_of(process: &str, count: usize) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("a process that runs");
    // After the name, which is in parentheses and may contain anything: from the 12th field on.
    let fields = stat.rsplit(") ").next().expect("fields").split(' ').skip(11).take(count);
    let ticks: u64 = fields.map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// The times of all cores so far.
pub(crate) struct CoreTimes {
    all: u64,
    stolen: u64,
}

impl CoreTimes {
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").expect("Linux");
        let fields = stat.lines().next().expect("all cores").split_whitespace().skip(1);
        // user, nice, system, idle, iowait, irq, softirq, steal. These include the later fields.
        let ticks: Vec<u64> = fields.take(8).map(|ticks| ticks.parse().expect("a number")).collect();
        CoreTimes { all: ticks.iter().sum(), stolen: ticks[7] }
    }

    /// Returns the share of the time since then that the host gave to others, in percent.
    pub(crate) fn stolen_since(&self) -> f64 {
        let now = CoreTimes::now();
        100.0 * (now.stolen - self.stolen) as f64 / (now.all - self.all).max(1) as f64
    }
}
