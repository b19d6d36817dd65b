//! TLS of the gRPC port, with certificates that the test signs.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use rcgen::ExtendedKeyUsagePurpose;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::{RULES, descriptor, request, response_summary};
use crate::serve::authority::Authority;
use crate::serve::program::Program;
use crate::serve::write_file;

/// Sends one request as a client that trusts `authority` and shows `identity`.
async fn send(program: &Program, authority: &Authority, identity: Option<(String, String)>) -> Result<String, String> {
    let mut tls =
        ClientTlsConfig::new().domain_name("localhost").ca_certificate(Certificate::from_pem(authority.pem()));
    if let Some((certificate, key)) = identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    let address = format!("https://{}", program.grpc.expect("a port"));
    let endpoint = Endpoint::from_shared(address).unwrap().tls_config(tls).unwrap();
    let channel = endpoint.connect().await.map_err(|error| format!("{error:?}"))?;
    let request = request("shop", &[descriptor("path", "/login")]);
    let answer = RateLimitServiceClient::new(channel).should_rate_limit(request).await;
    answer.map(|answer| response_summary(answer.get_ref())).map_err(|refused| format!("{refused:?}"))
}

fn start_server(name: &str, server: &Authority, more: &[&str]) -> Program {
    let (certificate, key) = server.sign(ExtendedKeyUsagePurpose::ServerAuth);
    let config = write_file(&format!("grpc-{name}.yaml"), RULES);
    let certificate = write_file(&format!("grpc-{name}-cert.pem"), certificate);
    let key = write_file(&format!("grpc-{name}-key.pem"), key);
    let arguments = ["--config", &config, "--tls-cert", &certificate, "--tls-key", &key];
    Program::start(&[&arguments[..], more].concat())
}

#[tokio::test]
async fn a_port_with_a_certificate_speaks_tls() {
    let authority = Authority::new();
    let program = start_server("tls", &authority, &[]);
    assert_eq!(send(&program, &authority, None).await, Ok("OK [OK 1 of 2]".to_owned()));
    // A client that trusts another authority fails, and so does one without TLS.
    send(&program, &Authority::new(), None).await.expect_err("a stranger");
    let plain = Endpoint::from_shared(format!("http://{}", program.grpc.unwrap())).unwrap().connect_lazy();
    let request = request("shop", &[descriptor("path", "/login")]);
    RateLimitServiceClient::new(plain).should_rate_limit(request).await.expect_err("no plain text");
}

#[tokio::test]
async fn clients_need_a_certificate_with_a_client_ca() {
    let (server, clients) = (Authority::new(), Authority::new());
    let ca = write_file("grpc-mtls-ca.pem", clients.pem());
    let program = start_server("mtls", &server, &["--tls-client-ca", &ca]);
    let client = |authority: &Authority| Some(authority.sign(ExtendedKeyUsagePurpose::ClientAuth));
    send(&program, &server, None).await.expect_err("without a certificate");
    send(&program, &server, client(&server)).await.expect_err("signed by somebody else");
    assert_eq!(send(&program, &server, client(&clients)).await, Ok("OK [OK 1 of 2]".to_owned()));
}
