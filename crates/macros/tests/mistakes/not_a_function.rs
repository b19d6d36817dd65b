use tidegate::limit;

#[limit("send", key = 1)]
struct Send;

fn main() {}
