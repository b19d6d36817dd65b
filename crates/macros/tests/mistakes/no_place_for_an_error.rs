use tidegate::limit;

#[limit("send", key = user)]
async fn send(user: u64) -> u64 {
    user
}

fn main() {}
