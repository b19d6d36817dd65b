use tidegate::attribute::LimitError;
use tidegate::limit;

#[limit(key = user)]
async fn send(user: u64) -> Result<u64, LimitError> {
    Ok(user)
}

fn main() {}
