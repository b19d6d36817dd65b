//! Forward authentication: decisions for proxies about their requests.

use http::request::Parts;
use tidegate::Key;
use tidegate::api::{AuthRequest, Problem, same_site_or_proxy};
use tidegate::enforce::{Action, Caller, Outcome};

use super::{Api, ApiResponse, no_content, to_problem};
use crate::adapter::client_address;
use crate::store::ObjectClient;

impl<P: ObjectClient> Api<P> {
    /// Responds with 204, or with the denial that the proxy returns to its client. Both have the headers of the limit.
    /// Without a key the client address is the key.
    pub(super) async fn auth(&self, head: &Parts) -> Result<ApiResponse, Problem> {
        same_site_or_proxy(&head.uri, &head.headers)?;
        let auth = AuthRequest::parse(head.uri.query())?;
        self.limiter.quota(&auth.limit).map_err(|error| to_problem(&error))?;
        let client = client_address(&head.headers).map(|peer| self.client_address.find(peer, &head.headers));
        let key = match (&auth.key, &client) {
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
        let enforcer = self.limiter.enforcer(auth.limit).map_err(|error| to_problem(&error.into()))?;
        let outcome = enforcer.apply(&caller, auth.cost.get(), Action::Limit).await;
        match &outcome {
            Outcome::Invalid(error) => Err(to_problem(error)),
            Outcome::Allowed(_) => {
                let mut response = no_content();
                self.rate_limit.write_headers(&outcome, response.headers_mut());
                Ok(response)
            }
            _ => Ok(self.rate_limit.response(&outcome).map(String::into_bytes)),
        }
    }
}
