//! Background jobs: workers that share one limit and wait for their turn. `cargo run -p tidegate-examples --example jobs`

use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex};

use tidegate::{Clock, Key, Limiter, Quota, SystemClock, seconds};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Twenty mails a second for all workers together. With a shared store, the limit covers all processes.
    let limiter = Limiter::builder().limit("mails", Quota::token_bucket(20, seconds(1))?.capacity(2)?).build()?;
    let jobs: Arc<Mutex<VecDeque<u32>>> = Arc::new(Mutex::new((1..=10).collect()));

    let start = SystemClock.now();
    let workers = (1..=3).map(|worker| {
        let (limiter, jobs) = (limiter.clone(), Arc::clone(&jobs));
        tokio::spawn(async move {
            loop {
                // First the turn, then the job: a waiting worker holds no job that another could do.
                let decision = limiter.acquire("mails", Key::GLOBAL, seconds(5)).await?;
                if !decision.allowed() {
                    // The turn is further away than five seconds, so the denial came at once. Without a time it never
                    // comes.
                    let Some(wait) = decision.retry_after() else { return Ok(()) };
                    tokio::time::sleep(wait).await;
                    continue;
                }
                let Some(job) = jobs.lock().expect("nobody panics with it").pop_front() else { return Ok(()) };
                println!("worker {worker}: mail {job}, after {} ms", SystemClock.now().since(start).as_millis());
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await?.map_err(|error: tidegate::Error| error)?;
    }
    Ok(())
}
