//! The remote store over https, with certificates that the test signs.

use rcgen::ExtendedKeyUsagePurpose;
use tidegate::remote::RemoteStore;
use tidegate::resilience::TimeoutStore;
use tidegate::{Error, Limit, Limiter, OnStoreError, Quota, TokioSleeper, days, millis, seconds};
use tidegate_servers::{StallingProxy, wait_until};

use super::run;
use crate::serve::authority::Authority;
use crate::serve::program::Program;
use crate::serve::write_file;

/// A server with a certificate for `localhost` that the authority has signed.
fn start_tls_server(name: &str, authority: &Authority) -> Program {
    let (certificate, key) = authority.sign(ExtendedKeyUsagePurpose::ServerAuth);
    let (certificate, key) =
        (write_file(&format!("{name}-cert.pem"), certificate), write_file(&format!("{name}-key.pem"), key));
    Program::start(&["--tls-cert", &certificate, "--tls-key", &key, "--grpc", "off", "--resp", "off"])
}

fn limit_once(url: &str, roots: Option<&Authority>) -> Result<u64, Error> {
    let builder = RemoteStore::builder(url);
    let builder = match roots {
        None => builder,
        Some(authority) => builder.root_certificates(authority.pem()),
    };
    let store = builder.build().expect("a store");
    let quota = Quota::fixed_window(5, days(300)).expect("a quota");
    let limiter = Limiter::builder().limit("api", quota).bare_store(store).build().expect("a limiter");
    run(async { limiter.limit("api", "u1").await.map(|decision| decision.remaining()) })
}

#[test]
fn only_a_server_with_a_trusted_certificate_is_used() {
    let authority = Authority::new();
    let program = start_tls_server("remote", &authority);
    let port = program.http.expect("it listens for HTTP").port();
    let url = format!("https://localhost:{port}");
    assert_eq!(limit_once(&url, Some(&authority)).expect("trusted"), 4);
    for (url, roots) in [
        (&url, None),
        (&url, Some(&Authority::new())),
        // The certificate is for another name.
        (&format!("https://127.0.0.1:{port}"), Some(&authority)),
    ] {
        let error = limit_once(url, roots).expect_err("not trusted").to_string();
        assert!(error.contains("certificate"), "{error}");
    }
    assert_eq!(limit_once(&url, Some(&authority)).expect("trusted"), 3, "nothing was taken by those");
}

#[test]
fn malformed_roots_are_refused_when_the_store_is_built() {
    for pem in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let error =
            RemoteStore::builder("https://localhost").root_certificates(pem).build().expect_err(pem).to_string();
        assert!(error.contains("root certificates"), "{error}");
    }
}

#[test]
fn connections_are_established_after_their_calls_time_out() {
    let authority = Authority::new();
    let program = start_tls_server("slow", &authority);
    let proxy = StallingProxy::start(program.http.expect("it listens for HTTP")).expect("a port");
    let store = RemoteStore::builder(format!("https://localhost:{}", proxy.address().port()));
    let store = store.root_certificates(authority.pem()).connect_timeout(seconds(30)).idle_timeout(seconds(30));
    let store = TimeoutStore::new(store.build().expect("a store"), millis(50), TokioSleeper);
    let quota = Quota::fixed_window(1_000, days(300)).expect("a quota");
    let limit = Limit::new(quota).on_store_error(OnStoreError::Closed);
    let limiter = Limiter::builder().limit("api", limit).bare_store(store).build().expect("a limiter");
    let is_allowed = || run(async { limiter.limit("api", "u1").await.is_ok() });

    proxy.hold_connections();
    for _ in 0..5 {
        assert!(!is_allowed(), "nobody can answer");
    }
    // The connections come from calls that have timed out, because a handshake takes longer than its call.
    let admit_and_limit = || {
        proxy.forward_waiting();
        is_allowed()
    };
    assert!(wait_until(admit_and_limit), "connections are given up with their calls");
}
