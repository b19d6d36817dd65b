//! What the others have when one of several calls is denied by a list.

use tidegate_core::{Decision, Key, Op, Quota, Request};

use super::decides::Decides;
use super::route::{Asked, Route};

/// The answers to several `limit`s of which at least one is denied by a list. Nothing is taken, and the others say what
/// they have: all of them are looked at in one call, and without others there is none.
///
/// The whole is denied whatever the looks end with, so one that fails does not make it an error.
pub(super) async fn beside_denied<D: Decides + ?Sized>(
    asked: &[Asked<'_>],
    routes: &[Route<'_>],
    store: &D,
) -> Vec<Decision> {
    let mut places: Vec<(&Asked<'_>, Key<'_>, &Quota)> = Vec::with_capacity(asked.len());
    for (asked, route) in asked.iter().zip(routes) {
        match route {
            Route::Answer(_) => {}
            Route::One(key, quota) => places.push((asked, key.borrow(), quota)),
            Route::Spread(spread) => {
                places
                    .extend(spread.two.map(|part| (asked, spread.key.with_shard(part), &spread.parts[part as usize])));
            }
        }
    }
    let requests: Vec<Request<'_>> = places
        .iter()
        .map(|(asked, key, quota)| {
            let Op::Limit(cost) = asked.op else { unreachable!("only a `limit` is taken all or nothing") };
            asked.request(key, quota, Op::Check(cost))
        })
        .collect();
    let looks = if requests.is_empty() { Vec::new() } else { store.decide_each(&requests).await };
    let mut looks = looks.into_iter();
    let mut look = |asked: &Asked<'_>| {
        let look = looks.next().expect("one answer for each request");
        look.unwrap_or_else(|_| Decision::admitted_without_store(asked.capacity()))
    };
    let in_order = asked.iter().zip(routes).map(|(asked, route)| match route {
        Route::Answer(decision) => *decision,
        Route::One(..) => look(asked),
        Route::Spread(spread) => spread.of_whole(spread.fuller([look(asked), look(asked)]).1),
    });
    in_order.collect()
}
