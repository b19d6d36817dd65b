use tidegate::limit;

#[limit("send", key = user)]
async fn send(user: u64) -> impl Iterator<Item = u64> {
    0..user
}

fn main() {}
