//! TLS, with certificates of the test's own.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use rcgen::ExtendedKeyUsagePurpose;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::{RULES, on, request, told};
use crate::serve::authority::Authority;
use crate::serve::file;
use crate::serve::program::Program;

/// Sends one request as a client that trusts `authority` and shows `identity`.
async fn ask(program: &Program, authority: &Authority, identity: Option<(String, String)>) -> Result<String, String> {
    let mut tls =
        ClientTlsConfig::new().domain_name("localhost").ca_certificate(Certificate::from_pem(authority.pem()));
    if let Some((certificate, key)) = identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    let address = format!("https://{}", program.grpc.expect("a port"));
    let endpoint = Endpoint::from_shared(address).unwrap().tls_config(tls).unwrap();
    let channel = endpoint.connect().await.map_err(|error| format!("{error:?}"))?;
    let request = request("shop", &[on("path", "/login")]);
    let answer = RateLimitServiceClient::new(channel).should_rate_limit(request).await;
    answer.map(|answer| told(answer.get_ref())).map_err(|refused| format!("{refused:?}"))
}

fn serving(name: &str, server: &Authority, more: &[&str]) -> Program {
    let (certificate, key) = server.sign(ExtendedKeyUsagePurpose::ServerAuth);
    let config = file(&format!("grpc-{name}.yaml"), RULES);
    let certificate = file(&format!("grpc-{name}-cert.pem"), certificate);
    let key = file(&format!("grpc-{name}-key.pem"), key);
    let arguments = ["--config", &config, "--tls-cert", &certificate, "--tls-key", &key];
    Program::start(&[&arguments[..], more].concat())
}

#[tokio::test]
async fn a_port_with_a_certificate_speaks_tls() {
    let authority = Authority::new();
    let program = serving("tls", &authority, &[]);
    assert_eq!(ask(&program, &authority, None).await, Ok("OK [OK 1 of 2]".to_owned()));
    // A client that trusts another authority fails, and so does one without TLS.
    ask(&program, &Authority::new(), None).await.expect_err("a stranger");
    let plain = Endpoint::from_shared(format!("http://{}", program.grpc.unwrap())).unwrap().connect_lazy();
    let request = request("shop", &[on("path", "/login")]);
    RateLimitServiceClient::new(plain).should_rate_limit(request).await.expect_err("no plain text");
}

#[tokio::test]
async fn clients_need_a_certificate_with_a_client_ca() {
    let (server, clients) = (Authority::new(), Authority::new());
    let ca = file("grpc-mtls-ca.pem", clients.pem());
    let program = serving("mtls", &server, &["--tls-client-ca", &ca]);
    let client = |authority: &Authority| Some(authority.sign(ExtendedKeyUsagePurpose::ClientAuth));
    ask(&program, &server, None).await.expect_err("without a certificate");
    ask(&program, &server, client(&server)).await.expect_err("signed by somebody else");
    assert_eq!(ask(&program, &server, client(&clients)).await, Ok("OK [OK 1 of 2]".to_owned()));
}
