//! The hosts that requests may be sent to. A browser sends a page's requests to the page's own host, and its owner can have
//! that name point at any address (DNS rebinding). So a name counts only when the operator has chosen it.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use http::{HeaderMap, StatusCode, Uri};
use tidegate::api::{Problem, requested_host};

/// The longest name that a problem repeats.
const MAX_NAME: usize = 253;

/// A name of this server, without port, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(Box<str>);

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_suffix('.').unwrap_or(text);
        match is_name(name) {
            true => Ok(HostName(name.to_ascii_lowercase().into())),
            false => {
                Err(format!("found {text:?}, expected the name of a host, such as tidegate.internal, without a port"))
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The hosts that requests may be sent to: the names that the operator has chosen, `localhost`, and every address. An
/// address cannot be made to point elsewhere.
#[derive(Debug)]
pub(crate) struct AllowedHosts(Vec<HostName>);

impl AllowedHosts {
    pub(crate) fn new(names: &[HostName]) -> Self {
        AllowedHosts(names.to_vec())
    }

    /// Checks the host of a request, and returns whether it can only be this machine. A browser names the sender in every
    /// request to such a host, as it does over TLS.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<bool, Problem> {
        // Every browser names the host.
        let Some(host) = requested_host(uri, headers) else { return Ok(true) };
        let host = without_port(str::from_utf8(host).unwrap_or_default());
        if let Some(address) = parse_address(host) {
            return Ok(address.is_loopback());
        }
        let name = host.strip_suffix('.').unwrap_or(host);
        if name.eq_ignore_ascii_case("localhost") {
            return Ok(true);
        }
        match self.0.iter().any(|allowed| allowed.0.eq_ignore_ascii_case(name)) {
            true => Ok(false),
            false => Err(unknown(name)),
        }
    }
}

/// Removes the port behind a host.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // The colons of an IPv6 address are in brackets.
        Some((before, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => before,
        _ => host,
    }
}

fn parse_address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

#[cold]
fn unknown(name: &str) -> Problem {
    let detail = match is_name(name) {
        true => format!(
            "{name:?} is not known as a name of this server: if it is one, start the server with --allowed-host {name}. \
             A page of another site may have had it point here"
        ),
        false => "expected the name or the address of this server as the host".to_owned(),
    };
    Problem::new(StatusCode::MISDIRECTED_REQUEST, detail)
}

#[cfg(test)]
mod tests {
    use http::header::HOST;

    use super::*;

    fn check(host: &str) -> Result<bool, StatusCode> {
        let hosts = AllowedHosts::new(&["Tidegate.Internal.".parse().expect("a name")]);
        let headers = [(HOST, host.parse().expect("a header"))].into_iter().collect();
        hosts.check(&Uri::from_static("/v1/limits"), &headers).map_err(|problem| problem.status())
    }

    #[test]
    fn chosen_names_and_addresses_are_allowed() {
        for local in ["localhost", "LOCALHOST:8080", "localhost.", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "[::1]"]
        {
            assert_eq!(check(local), Ok(true), "{local}");
        }
        for remote in
            ["tidegate.internal", "TIDEGATE.internal.:8080", "10.0.0.7:8080", "0.0.0.0:8080", "[2001:db8::1]:80"]
        {
            assert_eq!(check(remote), Ok(false), "{remote}");
        }
        for unknown in [
            "evil.example:8080",
            "tidegate.internal.evil.example",
            "evil.tidegate.internal",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "evil.example#127.0.0.1",
            "127.1",
            "2130706433",
            "::1",
            "[::1",
            "[evil.example]",
            "",
            ":8080",
        ] {
            assert_eq!(check(unknown), Err(StatusCode::MISDIRECTED_REQUEST), "{unknown}");
        }
    }

    #[test]
    fn problem_names_the_flag() {
        let named = |host: &'static str| {
            let headers = [(HOST, host.parse().expect("a header"))].into_iter().collect();
            let problem = AllowedHosts::new(&[]).check(&Uri::from_static("/"), &headers).expect_err("unknown");
            problem.to_response().into_body()
        };
        assert!(named("tidegate:8080").contains("--allowed-host tidegate."), "{}", named("tidegate:8080"));
        assert!(!named("$(reboot)").contains("reboot"));
    }

    #[test]
    fn host_beside_the_path_counts_instead_of_the_header() {
        let hosts = AllowedHosts::new(&[]);
        let headers: HeaderMap = [(HOST, "localhost".parse().expect("a header"))].into_iter().collect();
        assert!(hosts.check(&Uri::from_static("http://evil.example:8080/v1/limits"), &headers).is_err());
        assert_eq!(hosts.check(&Uri::from_static("/v1/limits"), &HeaderMap::new()).ok(), Some(true), "HTTP/1.0");
    }

    #[test]
    fn name_with_more_than_a_name_is_refused() {
        for wrong in ["", ".", "a:8080", "http://a", "a/b", "a b", "*.a", "[::1]", "ä", &"a".repeat(254)] {
            assert!(wrong.parse::<HostName>().is_err(), "{wrong:?}");
        }
        assert_eq!("A.b_c-1".parse::<HostName>().expect("a name").0.as_ref(), "a.b_c-1");
    }
}
