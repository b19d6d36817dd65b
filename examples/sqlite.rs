//! Limits in a file: they survive a restart, and a decision can be part of your own transaction.
//!
//! `cargo run -p tidegate-examples --example sqlite -- limits.db`. Without an argument, the file is removed at the end.

use std::error::Error;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};
use tidegate::sqlite::SqliteStore;
use tidegate::{Clock, Limiter, Quota, SystemClock, hours};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let path = given
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("tidegate-example-{}.db", std::process::id())));
    let prefix = format!("example-{}", SystemClock.now().as_micros()); // every run starts with new keys

    let (limiter, sqlite) = open(&path, &prefix)?;
    for order in 1..=2 {
        println!("order {order}: {} left", limiter.limit("orders", "alice").await?.remaining());
    }
    // A restart of the program.
    limiter.close().await;
    drop((limiter, sqlite));

    let (limiter, sqlite) = open(&path, &prefix)?;
    println!("opened again: {} left", limiter.check("orders", "alice").await?.remaining());

    // A transaction of your own, on a connection of your own.
    let mut connection = Connection::open(&path)?;
    for keeps in [false, true, true] {
        let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let decision = sqlite.in_transaction(&mut transaction).apply(limiter.limit("orders", "alice"))?;
        if !decision.allowed() {
            println!("an order: denied, and nothing was taken");
            continue;
        }
        // Your code writes the order here.
        if keeps {
            transaction.commit()?;
        } else {
            transaction.rollback()?;
        }
        let done = if keeps { "committed" } else { "rolled back" };
        println!("an order, {done}: {} left in the transaction", decision.remaining());
    }
    println!("and afterwards: {} left", limiter.check("orders", "alice").await?.remaining());

    drop(connection);
    let _ = limiter.reset("orders", "alice").await?;
    // After closing, everything is in one file.
    limiter.close().await;
    if given.is_none() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Opens a limiter of three orders an hour in this file. Only transactions need the store beside the limiter.
fn open(path: &Path, prefix: &str) -> Result<(Limiter, SqliteStore), Box<dyn Error>> {
    // Creates the file and the table `tidegate` when they are missing.
    let sqlite = SqliteStore::open(path)?;
    // No call takes longer than 50 ms. Each limit's policy answers when the file is locked or the disk is full.
    let limiter = Limiter::builder().prefix(prefix).store(sqlite.clone());
    let limiter = limiter.limit("orders", Quota::fixed_window(3, hours(1))?).build()?;
    Ok((limiter, sqlite))
}
