use tidegate::limit;

#[limit("send", key = user)]
async fn send(user: u64) -> Result<u64, Why> {
    Ok(user)
}

struct Why;

fn main() {}
