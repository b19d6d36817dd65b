//! gRPC statuses of denied calls.

use async_trait::async_trait;
use tidegate::{Limiter, limit};
use tidegate_testkit::block_on;
use tonic::{Code, Request, Response, Status};
use tonic_types::StatusExt;

use crate::support::limiter;

/// In tonic's form.
#[async_trait]
trait Greeter {
    async fn greet(&self, request: Request<String>) -> Result<Response<String>, Status>;
}

struct Polite {
    limiter: Limiter,
}

#[async_trait]
impl Greeter for Polite {
    #[limit("greet", key = request.get_ref(), limiter = self.limiter)]
    async fn greet(&self, request: Request<String>) -> Result<Response<String>, Status> {
        Ok(Response::new(format!("Hello {}", request.into_inner())))
    }
}

#[test]
fn denied_call_has_the_status_of_the_layer() {
    let greeter = Polite { limiter: limiter(&[("greet", 1)]) };
    let greet = || block_on(greeter.greet(Request::new("alice".to_owned())));
    assert_eq!(greet().unwrap().into_inner(), "Hello alice");
    let status = greet().unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    let details = status.get_error_details();
    assert_eq!(details.quota_failure().unwrap().violations[0].subject, "greet");
    let wait = details.retry_info().unwrap().retry_delay.unwrap();
    let pushback: u128 = status.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap().parse().unwrap();
    assert_eq!(pushback, wait.as_micros().div_ceil(1_000));
}

/// A destructured argument.
struct Named(String);

#[async_trait]
trait Counter {
    async fn count(&mut self, named: Named, beside: (u32, u32)) -> Result<u32, Status>;
}

#[async_trait]
impl Counter for Polite {
    #[limit("greet", key = (name, left), limiter = self.limiter)]
    async fn count(&mut self, Named(name): Named, (left, right): (u32, u32)) -> Result<u32, Status> {
        Ok(name.len() as u32 + left + right)
    }
}

#[test]
fn destructured_arguments_work_under_async_trait() {
    let mut polite = Polite { limiter: limiter(&[("greet", 1)]) };
    assert_eq!(block_on(polite.count(Named("alice".to_owned()), (1, 2))).unwrap(), 8);
    let again = block_on(polite.count(Named("alice".to_owned()), (1, 3)));
    assert_eq!(again.unwrap_err().code(), Code::ResourceExhausted);
    assert!(block_on(polite.count(Named("bob".to_owned()), (1, 2))).is_ok());
}
