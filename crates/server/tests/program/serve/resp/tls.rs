//! TLS of the Redis port, with certificates that the test signs.

use std::io::{Read, Write};
use std::sync::Arc;

use rcgen::ExtendedKeyUsagePurpose;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{connect, replies, start_server};
use crate::serve::authority::Authority;
use crate::serve::program::Program;
use crate::serve::write_file;

/// The reply to one command, as a client that trusts `authority`.
fn ping(program: &Program, authority: &Authority) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM")).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut stream = StreamOwned::new(client, connect(program));
    stream.write_all(b"PING\r\n")?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply)?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

#[test]
fn a_port_with_a_certificate_speaks_tls() {
    let authority = Authority::new();
    let (certificate, key) = authority.sign(ExtendedKeyUsagePurpose::ServerAuth);
    let (certificate, key) = (write_file("resp-cert.pem", certificate), write_file("resp-key.pem", key));
    let program = start_server(&["--tls-cert", &certificate, "--tls-key", &key]);
    assert_eq!(ping(&program, &authority).expect("a reply"), "+PONG\r\n");
    ping(&program, &Authority::new()).expect_err("a stranger");
    assert!(!replies(&program, "PING\r\n").contains("PONG"), "no plain text");
}
