use tidegate::attribute::Refusal;
use tidegate::limit;

#[limit("send")]
async fn send(user: u64) -> Result<u64, Refusal> {
    Ok(user)
}

fn main() {
    let _ = send(7);
}
