//! All or nothing: one call of the function that takes several.

use tidegate_core::{JointDecision, Request, State, StoreError, Timestamp, step_all};
use tokio_postgres::types::Type;

use super::Asks;
use super::arguments::{Arguments, signed};
use super::client::Client;
use super::found::{Answer, Carried, Done, Found, read, timestamp, to_text};
use crate::store::stored::{ATTEMPTS, Asked, agreed, changing, corrupt, numbers};

impl Asks {
    pub(super) async fn decide_all(
        &self,
        client: Client<'_>,
        requests: &[Request<'_>],
        at: Option<Timestamp>,
    ) -> Result<JointDecision, StoreError> {
        let asked = Asked::new(requests, |request| self.rows.name(request))?;
        // Everybody locks rows in the same order, so nobody waits for somebody who waits for him.
        let mut order: Vec<usize> = (0..asked.names.len()).collect();
        order.sort_by_key(|index| &asked.names[*index]);
        let sums: Vec<_> = asked.sums().collect();
        let arguments: Vec<Arguments> =
            order.iter().map(|index| Arguments::among(sums[*index].0, sums[*index].1)).collect();
        let names: Vec<&[u8]> = order.iter().map(|index| &*asked.names[*index]).collect();
        let under: Vec<&[u8]> = arguments.iter().map(|arguments| &*arguments.quota).collect();
        let units: Vec<i64> = arguments.iter().map(|arguments| arguments.units).collect();
        let rooms: Vec<i64> = arguments.iter().map(|arguments| arguments.room).collect();
        let told: Vec<i64> = arguments.iter().flat_map(|arguments| arguments.numbers).collect();
        let given = at.map(|at| signed(at.as_micros()));
        let mut carried = vec![Carried::<String>::default(); names.len()];
        for _ in 0..ATTEMPTS {
            let quotas: Vec<_> = carried.iter().map(|carried| carried.quota.as_deref()).collect();
            let expected: Vec<_> = carried.iter().map(|carried| carried.state.as_deref()).collect();
            let instead: Vec<_> = carried.iter().map(|carried| carried.instead.as_deref()).collect();
            let row = client
                .row(
                    &self.statements.all,
                    &[
                        (&names, Type::BYTEA_ARRAY),
                        (&under, Type::BYTEA_ARRAY),
                        (&units, Type::INT8_ARRAY),
                        (&rooms, Type::INT8_ARRAY),
                        (&told, Type::INT8_ARRAY),
                        (&given, Type::INT8),
                        (&quotas, Type::BYTEA_ARRAY),
                        (&expected, Type::TEXT_ARRAY),
                        (&instead, Type::TEXT_ARRAY),
                    ],
                )
                .await?;
            let answer: Answer<Vec<Option<Vec<u8>>>, Vec<Option<String>>> = read(&row, 0)?;
            let Answer(now, done, quotas, found) = answer;
            let (now, done) = (timestamp(now)?, Done::new(done)?);
            if (quotas.len(), found.len()) != (names.len(), names.len()) {
                return Err(corrupt("the function's answer is not ours"));
            }
            let mut states = vec![State::New; names.len()];
            for ((place, index), (quota, text)) in order.iter().enumerate().zip(quotas.into_iter().zip(found)) {
                let state = Found::among(now, quota.clone(), text.as_deref())?.state(asked.quota(*index), now)?;
                if quota.is_some() {
                    let instead = (state != State::New).then(|| to_text(&numbers(&state)));
                    carried[place] = Carried { quota, state: text, instead };
                }
                states[*index] = state;
            }
            if done == Done::Foreign {
                continue;
            }
            let all = step_all(&asked.entries, &mut states, now);
            return agreed(all.allowed(), done == Done::Written).map(|()| all);
        }
        Err(changing())
    }
}
