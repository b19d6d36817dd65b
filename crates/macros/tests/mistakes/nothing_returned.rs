use tidegate::limit;

#[limit("send", key = user)]
async fn send(user: u64) {}

fn main() {}
