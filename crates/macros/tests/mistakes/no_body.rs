use tidegate::attribute::LimitError;
use tidegate::limit;

trait Sends {
    #[limit("send", key = user)]
    async fn send(user: u64) -> Result<(), LimitError>;
}

fn main() {}
