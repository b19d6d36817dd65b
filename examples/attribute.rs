//! Limits as attributes: a function does not run when its limit denies the call.
//!
//! `cargo run -p tidegate-examples --example attribute`

use std::error::Error;

use tidegate::attribute::{LimitError, set_default_limiter};
use tidegate::{Limiter, Quota, limit, minutes, seconds};

// Five guesses a minute for each user. The attribute borrows the arguments, so the body has all of them.
#[limit("login", key = user)]
async fn login(user: String, password: &str) -> Result<String, LoginError> {
    if password == "open sesame" { Ok(user) } else { Err(LoginError::WrongPassword) }
}

// A key of two parts, and a cost that depends on the arguments.
#[limit("mail", key = (tenant, user), cost = (texts.len() as u64).max(1))]
async fn send(tenant: &str, user: &str, texts: &[&str]) -> Result<usize, LimitError> {
    Ok(texts.len())
}

#[derive(Debug)]
enum LoginError {
    WrongPassword,
    TooOften(LimitError),
}

// A denied call returns this error.
impl From<LimitError> for LoginError {
    fn from(refusal: LimitError) -> Self {
        LoginError::TooOften(refusal)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The default for functions that name no limiter (`limiter = ...`) and do not run under a layer.
    set_default_limiter(
        Limiter::builder()
            .limit("login", Quota::sliding_log(5, minutes(1))?)
            .limit("mail", Quota::token_bucket(1, seconds(1))?.capacity(10)?)
            .build()?,
    )?;

    for guess in ["0000", "1234", "1111", "password", "secret", "open sesame"] {
        match login("alice".to_owned(), guess).await {
            Ok(user) => println!("{guess}: welcome, {user}"),
            Err(LoginError::WrongPassword) => println!("{guess}: wrong"),
            Err(LoginError::TooOften(refusal)) => println!("{guess}: not tried: {refusal}"),
        }
    }

    println!("sent {}", send("acme", "alice", &["hello"; 8]).await?);
    match send("acme", "alice", &["hello"; 8]).await {
        Ok(sent) => println!("sent {sent}"),
        Err(refusal) => println!("sent none of 8: {refusal}"),
    }
    Ok(())
}
