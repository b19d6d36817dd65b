//! Random lists as proxies write them, with every spelling of an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tidegate_testkit::Random;

use super::{ip, reading};

const LISTS: u64 = 20_000;

/// An address that no table here trusts.
pub(super) fn address(random: &mut Random) -> IpAddr {
    let bits = u128::from(random.next()) << 64 | u128::from(random.next());
    match random.below(3) {
        0 => IpAddr::V4(Ipv4Addr::new(203, 0, 113, bits as u8)),
        1 => IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | bits >> 32)),
        // Short ones, such as 2001:db8::17.
        _ => IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | bits & 0xff)),
    }
}

/// Returns one spelling of an address in a comma-separated list.
pub(super) fn entry(random: &mut Random, address: IpAddr) -> String {
    let port = random.next() as u16;
    match (address, random.below(5)) {
        (IpAddr::V4(v4), 0) => format!("{v4}:{port}"),
        (IpAddr::V4(v4), 1) => v4.to_ipv6_mapped().to_string(),
        (IpAddr::V4(v4), 2) => format!("[{}]:{port}", v4.to_ipv6_mapped()),
        (IpAddr::V4(v4), _) => v4.to_string(),
        (IpAddr::V6(v6), 0) => format!("[{v6}]:{port}"),
        (IpAddr::V6(v6), 1) => format!("[{v6}]"),
        (IpAddr::V6(v6), 2) => format!("{v6}%eth{}", random.below(9)),
        (IpAddr::V6(v6), 3) => v6.to_string().to_uppercase(),
        (IpAddr::V6(v6), _) => v6.segments().map(|group| format!("{group:04x}")).join(":"),
    }
}

/// Returns one spelling of an address as an element of `Forwarded`.
pub(super) fn element(random: &mut Random, address: IpAddr) -> String {
    let mut written = entry(random, address);
    if random.one_in(4) {
        written = written.chars().flat_map(|c| [random.one_in(2).then_some('\\'), Some(c)]).flatten().collect();
    }
    let name = random.pick(&["for", "For", "FOR"]);
    let mut parameters = vec![format!("{name}=\"{written}\"")];
    for _ in 0..random.below(3) {
        let other = random.pick(&[
            "proto=https",
            r#"host="example.org:80""#,
            r#"host="a,for=6.6.6.6""#,
            r#"host="\",for=6.6.6.6;\"""#,
            r#"by="_x\\""#,
            r#"x="""#,
            "",
        ]);
        let at = random.below(parameters.len() as u64 + 1) as usize;
        parameters.insert(at, other.to_owned());
    }
    parameters.join(random.pick(&[";", "; ", " ;\t"]))
}

/// Returns lines with these entries in order.
pub(super) fn lines(random: &mut Random, entries: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for entry in entries {
        match lines.last_mut() {
            Some(line) if !random.one_in(3) => {
                line.extend_from_slice(random.pick(&[",", ", ", " ,\t"]).as_bytes());
                line.extend(entry);
            }
            _ => lines.push(entry),
        }
    }
    lines
}

#[test]
fn hop_count_selects_the_entry_at_its_position() {
    let mut random = Random::new(1);
    for _ in 0..LISTS {
        let header = random.pick(&["x-forwarded-for", "forwarded"]);
        let write = if header == "forwarded" { element } else { entry };
        let addresses: Vec<IpAddr> = (0..random.between(1, 5)).map(|_| address(&mut random)).collect();
        let entries: Vec<_> = addresses.iter().map(|address| write(&mut random, *address).into_bytes()).collect();
        let lines = lines(&mut random, entries);
        for hops in 1..=7 {
            let clients = reading(header, &hops.to_string());
            let found = clients.find_in_lines(ip("10.0.0.1"), lines.iter().map(Vec::as_slice)).address();
            let expected = addresses[addresses.len().saturating_sub(hops)];
            let text = || lines.iter().map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>();
            assert_eq!(found, expected, "{hops} hops of {header}: {:?}", text());
        }
    }
}
