//! Limits in your own database: a decision inside your own transaction, rolled back with it.
//!
//! `cargo run -p tidegate-examples --example postgres -- postgres://app@127.0.0.1/app`. Without an argument, the server
//! is that of `TIDEGATE_POSTGRES_URL`.

use std::error::Error;

use tidegate::postgres::PostgresStore;
use tidegate::{Clock, Limiter, Quota, SystemClock, hours};
use tokio_postgres::NoTls;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).or_else(|| std::env::var("TIDEGATE_POSTGRES_URL").ok());
    let server = server.ok_or("which server? give an address, such as postgres://app@127.0.0.1/app")?;
    // Creates the table `tidegate` when it is missing.
    let postgres = PostgresStore::connect(&server).await?;

    let limiter = Limiter::builder()
        .prefix(format!("example-{}", SystemClock.now().as_micros())) // every run starts with new keys
        .limit("orders", Quota::fixed_window(2, hours(1))?)
        // No call takes longer than 50 ms. During an outage of the database, each limit's policy answers.
        .store(postgres.clone())
        .build()?;

    // Your own connection, and a transaction of your own.
    let (mut client, connection) = tokio_postgres::connect(&server, NoTls).await?;
    tokio::spawn(connection);
    for keeps in [true, false, true, true] {
        let mut tx = client.transaction().await?;
        let decision = postgres.in_transaction(&mut tx).apply(limiter.limit("orders", "alice")).await?;
        let (left, done) = (decision.remaining(), if keeps { "committed" } else { "rolled back" });
        // Your code writes the order here.
        match (decision.allowed(), keeps) {
            (true, true) => tx.commit().await?,
            _ => tx.rollback().await?,
        }
        if decision.allowed() {
            println!("an order, {done}: {left} left in the transaction");
        } else {
            println!("an order: denied, and nothing was taken");
        }
    }
    println!("and afterwards: {} left", limiter.check("orders", "alice").await?.remaining());
    let _ = limiter.reset("orders", "alice").await?;
    Ok(())
}
