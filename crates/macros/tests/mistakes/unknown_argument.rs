use tidegate::attribute::LimitError;
use tidegate::limit;

#[limit("send", key = user, costs = 3)]
async fn send(user: u64) -> Result<u64, LimitError> {
    Ok(user)
}

fn main() {}
