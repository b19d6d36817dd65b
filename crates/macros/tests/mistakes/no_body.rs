use tidegate::attribute::Refusal;
use tidegate::limit;

trait Sends {
    #[limit("send", key = user)]
    async fn send(user: u64) -> Result<(), Refusal>;
}

fn main() {}
