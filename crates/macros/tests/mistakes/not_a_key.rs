use tidegate::attribute::LimitError;
use tidegate::limit;

#[limit("send", key = user)]
async fn send(user: User) -> Result<(), LimitError> {
    let User = user;
    Ok(())
}

struct User;

fn main() {}
