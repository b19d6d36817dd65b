//! The machine of a benchmark: pinning to cores, CPU time of processes, and time stolen by the host.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Keeps this thread, and what it starts, on these cores; where there are none such it stays as it is.
pub(crate) fn pin(cores: impl IntoIterator<Item = usize>) {
    let mut set = rustix::thread::CpuSet::new();
    cores.into_iter().for_each(|core| set.set(core));
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Lets this process, and those that it starts, have as many files open as the system allows them.
pub(crate) fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Seconds of CPU time that a process has used by now, its own and the kernel's for it.
pub(crate) fn cpu_seconds(process: u32) -> f64 {
    cpu_seconds_of(&process.to_string(), 2)
}

/// The same of this process and of all that it has started and seen the end of.
pub(crate) fn own_cpu_seconds() -> f64 {
    cpu_seconds_of("self", 4)
}

/// The sum of the first `count` of what a process has used: its own, the kernel's for it, and both of children that have ended.
fn cpu_seconds_of(process: &str, count: usize) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("a process that runs");
    // After the name, which is in parentheses and may be anything: from the 12th field on.
    let fields = stat.rsplit(") ").next().expect("fields").split(' ').skip(11).take(count);
    let ticks: u64 = fields.map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// What all cores have done so far.
pub(crate) struct CoreTimes {
    all: u64,
    stolen: u64,
}

impl CoreTimes {
    pub(crate) fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").expect("Linux");
        let fields = stat.lines().next().expect("all cores").split_whitespace().skip(1);
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is in these already.
        let ticks: Vec<u64> = fields.take(8).map(|ticks| ticks.parse().expect("a number")).collect();
        CoreTimes { all: ticks.iter().sum(), stolen: ticks[7] }
    }

    /// The part of the time since then that the host gave to others, in percent.
    pub(crate) fn stolen_since(&self) -> f64 {
        let now = CoreTimes::now();
        100.0 * (now.stolen - self.stolen) as f64 / (now.all - self.all).max(1) as f64
    }
}
