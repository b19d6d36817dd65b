use tidegate::attribute::Refusal;
use tidegate::limit;

#[limit("send", key = user, cost = 0)]
async fn send(user: u64) -> Result<u64, Refusal> {
    Ok(user)
}

fn main() {}
