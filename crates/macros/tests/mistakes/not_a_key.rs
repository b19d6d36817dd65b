use tidegate::attribute::Refusal;
use tidegate::limit;

#[limit("send", key = user)]
async fn send(user: User) -> Result<(), Refusal> {
    let User = user;
    Ok(())
}

struct User;

fn main() {}
