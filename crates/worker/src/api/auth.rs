//! Whether a request may pass, for proxies that ask before they pass it on.

use http::request::Parts;
use tidegate::Key;
use tidegate::api::{AuthRequest, Problem, same_site_or_proxy};
use tidegate::enforce::{Action, Caller, Outcome};

use super::{Answer, Api, no_content, problem};
use crate::adapter::client;
use crate::store::Objects;

impl<P: Objects> Api<P> {
    /// 204, or the denial that the proxy hands on: with the headers of the limit. Without a key the client's address is it.
    pub(super) async fn auth(&self, head: &Parts) -> Result<Answer, Problem> {
        same_site_or_proxy(&head.uri, &head.headers)?;
        let asked = AuthRequest::parse(head.uri.query())?;
        self.limiter.quota(&asked.limit).map_err(|error| problem(&error))?;
        let client = client(&head.headers).map(|peer| self.addresses.find(peer, &head.headers));
        let key = match (&asked.key, &client) {
            (Some(key), _) => Key::from(key.as_str()),
            (None, Some(client)) => client.key().to_fallback(),
            (None, None) => {
                return Err(Problem::bad_request("key: missing, and there is no address to stand in for it"));
            }
        };
        let caller = Caller::new(key);
        let caller = match &client {
            Some(client) => caller.with_address(client.address()),
            None => caller,
        };
        let enforcer = self.limiter.enforcer(asked.limit).map_err(|error| problem(&error.into()))?;
        let outcome = enforcer.apply(&caller, asked.cost.get(), Action::Limit).await;
        match &outcome {
            Outcome::Invalid(error) => Err(problem(error)),
            Outcome::Allowed(_) => {
                let mut response = no_content();
                self.answers.write_headers(&outcome, response.headers_mut());
                Ok(response)
            }
            _ => Ok(self.answers.response(&outcome).map(String::into_bytes)),
        }
    }
}
