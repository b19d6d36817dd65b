//! Client addresses as a config sets them.

use tidegate::Key;
use tidegate::config::{Config, ConfigErrors, HttpConfig, Syntax};
use tidegate::http::ClientAddress;

use super::{headers, ip, reading};

fn config(http: &str) -> Result<Config, ConfigErrors> {
    let text = format!("[limits.a]\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1s\"\n[http]\n{http}\n");
    Config::parse(&text, Syntax::Toml, "t.toml")
}

fn clients(http: &str) -> ClientAddress {
    ClientAddress::from(config(http).unwrap().http())
}

#[test]
fn config_sets_the_trusted_proxies_and_the_header() {
    assert_eq!(clients(""), ClientAddress::new());
    assert_eq!(clients("trust_proxy = false"), ClientAddress::new());
    assert_eq!(clients("trust_proxy = 2"), reading("x-forwarded-for", "2"));
    assert_eq!(clients("trust_proxy = [\"10.0.0.0/8\", \"::1\"]"), reading("x-forwarded-for", "10.0.0.0/8 ::1"));
    assert_eq!(clients("trust_proxy = 1\nclient_header = \"Forwarded\""), reading("forwarded", "1"));
    assert_eq!(clients("trust_proxy = 1\nclient_header = \"X-Real-IP\""), reading("x-real-ip", "1"));
    assert_eq!(clients("client_header = \"X-FORWARDED-FOR\"\nipv6_prefix = 56"), ClientAddress::new().ipv6_prefix(56));
    let clients = clients("trust_proxy = 1\nclient_header = \"CF-Connecting-IP\"\nipv6_prefix = 48");
    let client = clients.find(ip("10.0.0.1"), &headers("cf-connecting-ip", &["2001:db8:1:2::3"]).unwrap());
    assert_eq!(client.key(), Key::from("2001:db8:1::/48"));
}

#[test]
fn header_name_accepted_by_a_config_is_valid() {
    let token: String = (' '..='~').filter(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(*c)).collect();
    for name in [token, "x".repeat(256)] {
        let clients = clients(&format!("trust_proxy = 1\nclient_header = \"{name}\""));
        assert_eq!(clients.header_name().as_str(), name.to_ascii_lowercase());
        assert!(clients.trusts(ip("10.0.0.1")));
    }
    assert!(config(&format!("client_header = \"{}\"", "x".repeat(257))).is_err());
}

#[test]
fn invalid_header_name_is_not_trusted() {
    let mut http = HttpConfig::default();
    http.trust_proxy = tidegate::config::TrustProxy::hops(1);
    http.client_header = "no name".to_owned();
    assert!(!ClientAddress::from(&http).trusts(ip("10.0.0.1")));
}
