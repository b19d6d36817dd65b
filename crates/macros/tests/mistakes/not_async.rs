use std::future::Future;
use std::pin::Pin;

use tidegate::attribute::LimitError;
use tidegate::limit;

#[limit("send", key = user)]
fn send(user: u64) -> Result<u64, LimitError> {
    Ok(user)
}

#[limit("send", key = user)]
fn begins_before(user: u64) -> Pin<Box<dyn Future<Output = Result<u64, LimitError>> + Send>> {
    println!("whether it may or not");
    Box::pin(async move { Ok(user) })
}

fn main() {
    let _ = send(7);
    let _ = begins_before(7);
}
