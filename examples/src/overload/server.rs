//! A server whose best limit is known.

use tidegate_testkit::Random;

/// Some workers with a queue in front of them, and a wait that takes no worker, such as for a database.
#[derive(Debug, Clone, Copy)]
pub struct Server {
    /// How many requests are worked on at once.
    pub workers: u32,
    /// How long a worker takes, in the mean, in microseconds.
    pub work: u64,
    /// How long a request waits after that, in microseconds.
    pub wait: u64,
}

impl Server {
    /// How long a request takes when no other is there, in the mean, in microseconds.
    pub fn unloaded_latency(&self) -> u64 {
        self.work + self.wait
    }

    /// How many requests a second it can answer.
    pub fn capacity(&self) -> f64 {
        f64::from(self.workers) * 1e6 / self.work as f64
    }

    /// The best limit: as many at once as keep all workers busy with nobody in the queue, by Little's law the capacity times
    /// the time without a queue. Fewer leave workers idle, more only wait.
    pub fn knee(&self) -> f64 {
        self.capacity() * self.unloaded_latency() as f64 / 1e6
    }

    /// How long a worker takes for one request: from half to one and a half of most, and four times as long for one in a
    /// hundred.
    pub(super) fn random_work(&self, random: &mut Random) -> u64 {
        // 99 of 100 take 100/103 in the mean and one takes 400/103: together 1.
        let usual = self.work * random.between(50, 150) / 103;
        if random.one_in(100) { usual * 4 } else { usual }
    }
}
