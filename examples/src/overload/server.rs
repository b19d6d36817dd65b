//! A server with a known best limit.

use tidegate_testkit::Random;

/// Workers behind a queue, and a wait that needs no worker, such as for a database.
#[derive(Debug, Clone, Copy)]
pub struct Server {
    /// The number of workers.
    pub workers: u32,
    /// The mean time of a worker for one request, in microseconds.
    pub work: u64,
    /// The wait of a request after the work, in microseconds.
    pub wait: u64,
}

impl Server {
    /// Returns the mean latency of a request that is alone, in microseconds.
    pub fn unloaded_latency(&self) -> u64 {
        self.work + self.wait
    }

    /// Returns the number of requests that the server can answer in a second.
    pub fn capacity(&self) -> f64 {
        f64::from(self.workers) * 1e6 / self.work as f64
    }

    /// Returns the best limit, which keeps all workers busy with an empty queue. By Little's law it is the capacity
    /// times the latency without a queue. A lower limit leaves workers idle, and a higher one only adds waiting.
    pub fn knee(&self) -> f64 {
        self.capacity() * self.unloaded_latency() as f64 / 1e6
    }

    /// Returns a random time of a worker for one request. Most take from half to one and a half of the usual time. One
    /// in a hundred takes four times as long.
    pub(super) fn random_work(&self, random: &mut Random) -> u64 {
        // 99 of 100 take 100/103 in the mean and one takes 400/103. The mean of all is 1.
        let usual = self.work * random.between(50, 150) / 103;
        if random.one_in(100) { usual * 4 } else { usual }
    }
}
