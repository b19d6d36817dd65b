use tidegate::attribute::Refusal;
use tidegate::limit;

#[limit(key = user)]
async fn send(user: u64) -> Result<u64, Refusal> {
    Ok(user)
}

fn main() {}
