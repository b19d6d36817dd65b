//! Tidegate's HTTP API as JSON: what is asked and what is answered, the same for everybody who serves it and for the
//! store that asks it.
//!
//! The program serves it (`tidegate serve`, see `docs/serve.md` in the repository), and so does a Worker at the edge. The
//! store contract itself is in [`apply`].

pub mod apply;
mod body;
mod cost;
mod decision;
mod key;
mod lease;
mod leases;
mod limits;
mod op;
mod pass;
mod problem;
mod question;
mod same_site;
mod token;

pub use body::{MOST, ONE, SEVERAL, check_count, parse};
pub use cost::{Cost, Millis};
pub use decision::Reply;
pub use key::{Key, MAX_KEY, MAX_TEXT, Part};
pub use lease::Lease;
pub use leases::{Admitted, Held, Kept, Place, Released, Renewed, is_held, lifetime};
pub use limits::Limits;
pub use op::{Op, OpName};
pub use pass::Pass;
pub use problem::Problem;
pub use question::{All, Asked, Batch, Several};
pub use same_site::{same_site, same_site_or_proxy};
pub use token::Token;
