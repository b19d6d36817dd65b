//! `X-Forwarded-For`. Throughout, 6.6.6.6 is the address that a client forges, and 203.0.113.9 its real one.

use super::assert_cases;

const HEADER: &str = "x-forwarded-for";

#[test]
fn client_defaults_to_the_peer() {
    assert_cases(
        HEADER,
        "
no header                  | nobody     | 203.0.113.9        | -               | 203.0.113.9 | there is nobody else
spoofed                    | nobody     | 203.0.113.9        | 6.6.6.6         | 203.0.113.9 | nothing is believed by default
spoofed twice              | nobody     | 203.0.113.9        | 6.6.6.6 // 6.6.6.7 | 203.0.113.9 | saying it twice does not help
spoofed over loopback      | nobody     | 127.0.0.1          | 6.6.6.6         | 127.0.0.1   | no network is trusted by itself
spoofed over a private net | nobody     | 10.0.0.1           | 6.6.6.6         | 10.0.0.1    | no network is trusted by itself
peer is IPv4 in IPv6       | nobody     | ::ffff:203.0.113.9 | -               | 203.0.113.9 | what a socket for both kinds reports
peer is IPv6               | nobody     | 2001:db8::9        | 6.6.6.6         | 2001:db8::9 | the peer, whole
zero hops                  | 0          | 203.0.113.9        | 6.6.6.6         | 203.0.113.9 | no hop is trusted
",
    );
}

#[test]
fn hops_are_counted_from_the_right() {
    assert_cases(
        HEADER,
        "
one hop                  | 1   | 10.0.0.1 | 203.0.113.9                     | 203.0.113.9 | the proxy that connects wrote the rightmost
one hop, spoofed         | 1   | 10.0.0.1 | 6.6.6.6, 203.0.113.9            | 203.0.113.9 | the client wrote what is left of it
one hop, spoofed thrice  | 1   | 10.0.0.1 | 6.6.6.6, 6.6.6.6,6.6.6.6, 203.0.113.9 | 203.0.113.9 | however often
one hop, spoofed line    | 1   | 10.0.0.1 | 6.6.6.6 // 203.0.113.9          | 203.0.113.9 | several lines are one list, in order
two hops                 | 2   | 10.0.0.1 | 203.0.113.9, 10.0.0.2           | 203.0.113.9 | the second from the right
two hops, spoofed        | 2   | 10.0.0.1 | 6.6.6.6, 203.0.113.9, 10.0.0.2  | 203.0.113.9 | the second from the right
two hops, two lines      | 2   | 10.0.0.1 | 6.6.6.6, 203.0.113.9 // 10.0.0.2 | 203.0.113.9 | counted across lines
two hops, three lines    | 2   | 10.0.0.1 | 6.6.6.6 // 203.0.113.9 // 10.0.0.2 | 203.0.113.9 | counted across lines
hops beyond the list     | 3   | 10.0.0.1 | 203.0.113.9, 10.0.0.2           | 203.0.113.9 | clamped to the leftmost
255 hops                 | 255 | 10.0.0.1 | 203.0.113.9                     | 203.0.113.9 | clamped to the leftmost
hops without a header    | 2   | 10.0.0.1 | -                               | 10.0.0.1    | nobody said anything: the peer
hops and an empty line   | 2   | 10.0.0.1 | <empty>                         | 10.0.0.1    | nobody said anything: the peer
one hop, any peer        | 1   | 198.51.100.1 | 203.0.113.9                 | 203.0.113.9 | hops do not ask for the peer's address
one hop, proxy in front  | 1   | 10.0.0.1 | 203.0.113.9, 10.0.0.2           | 10.0.0.2    | as far as was said, and no further
",
    );
}

#[test]
fn networks_are_walked_from_the_right() {
    assert_cases(
        HEADER,
        "
trusted peer                 | 10.0.0.0/8            | 10.0.0.1        | 203.0.113.9                    | 203.0.113.9  | the first that is not trusted
untrusted peer, spoofed      | 10.0.0.0/8            | 203.0.113.9     | 6.6.6.6                        | 203.0.113.9  | its header is not looked at
untrusted peer, as if proxy  | 10.0.0.0/8            | 203.0.113.9     | 6.6.6.6, 10.0.0.1              | 203.0.113.9  | its header is not looked at
spoofed, one proxy           | 10.0.0.0/8            | 10.0.0.1        | 6.6.6.6, 203.0.113.9           | 203.0.113.9  | the client wrote what is left of it
spoofed with a proxy's       | 10.0.0.0/8            | 10.0.0.1        | 6.6.6.6, 10.0.0.9, 203.0.113.9 | 203.0.113.9  | a proxy's address left of the client's is the client's word
two proxies                  | 10.0.0.0/8            | 10.0.0.1        | 6.6.6.6, 203.0.113.9, 10.0.0.2 | 203.0.113.9  | trusted ones are skipped
proxies in two lines         | 10.0.0.0/8            | 10.0.0.1        | 6.6.6.6, 203.0.113.9 // 10.0.0.2 // 10.0.0.3 | 203.0.113.9 | several lines are one list
all trusted                  | 10.0.0.0/8            | 10.0.0.1        | 10.0.0.4, 10.0.0.3, 10.0.0.2   | 10.0.0.4     | the leftmost
trusted peer, no header      | 10.0.0.0/8            | 10.0.0.1        | -                              | 10.0.0.1     | the proxy itself asks
trusted peer, empty line     | 10.0.0.0/8            | 10.0.0.1        | <empty>                        | 10.0.0.1     | nobody said anything
first of a network           | 10.1.0.0/16           | 10.1.0.0        | 203.0.113.9                    | 203.0.113.9  | the edge is inside
last of a network            | 10.1.0.0/16           | 10.1.255.255    | 203.0.113.9                    | 203.0.113.9  | the edge is inside
before a network             | 10.1.0.0/16           | 10.0.255.255    | 6.6.6.6                        | 10.0.255.255 | next to it is outside
after a network              | 10.1.0.0/16           | 10.2.0.0        | 6.6.6.6                        | 10.2.0.0     | next to it is outside
edge in the list             | 10.1.0.0/16           | 10.1.0.1        | 6.6.6.6, 10.2.0.0, 10.1.255.255 | 10.2.0.0    | edges hold for entries too
network of one               | 10.0.0.1              | 10.0.0.1        | 6.6.6.6, 10.0.0.2              | 10.0.0.2     | a plain address is a network of one
network with host bits       | 10.1.2.3/16           | 10.1.9.9        | 203.0.113.9                    | 203.0.113.9  | what is behind the prefix does not count
odd prefix, inside           | 192.0.2.128/25        | 192.0.2.128     | 203.0.113.9                    | 203.0.113.9  | prefixes are bits
odd prefix, outside          | 192.0.2.128/25        | 192.0.2.127     | 6.6.6.6                        | 192.0.2.127  | prefixes are bits
several networks             | 10.0.0.0/8 192.0.2.0/24 ::1 | ::1       | 6.6.6.6, 203.0.113.9, 192.0.2.3, 10.9.9.9 | 203.0.113.9 | in any of them
IPv6 proxies                 | 2001:db8:1::/48       | 2001:db8:1::1   | 6.6.6.6, 2001:db8:2::7, 2001:db8:1:ffff::2 | 2001:db8:2::7 | the same for IPv6
last of an IPv6 network      | 2001:db8:2::/48       | 2001:db8:2:ffff:ffff:ffff:ffff:ffff | 203.0.113.9 | 203.0.113.9 | the edge is inside
after an IPv6 network        | 2001:db8:2::/48       | 2001:db8:3::    | 6.6.6.6                        | 2001:db8:3:: | next to it is outside
before an IPv6 network       | 2001:db8:2::/48       | 2001:db8:1:ffff:ffff:ffff:ffff:ffff | 6.6.6.6 | 2001:db8:1:ffff:ffff:ffff:ffff:ffff | next to it is outside
peer is mapped               | 10.0.0.0/8            | ::ffff:10.0.0.1 | 203.0.113.9                    | 203.0.113.9  | IPv4 in IPv6 is IPv4
network is mapped            | ::ffff:10.0.0.0/104   | 10.0.0.1        | 203.0.113.9                    | 203.0.113.9  | IPv4 in IPv6 is IPv4
all of IPv4 is not IPv6      | 0.0.0.0/0             | 2001:db8::1     | 6.6.6.6                        | 2001:db8::1  | kinds do not match each other
",
    );
}

#[test]
fn entry_may_have_a_port_brackets_and_a_zone() {
    assert_cases(
        HEADER,
        "
mapped entry is a proxy    | 10.0.0.0/8 | 10.0.0.1 | 203.0.113.9, ::ffff:10.0.0.2       | 203.0.113.9 | IPv4 in IPv6 matches the network
mapped entry is the client | 10.0.0.0/8 | 10.0.0.1 | ::ffff:203.0.113.9                 | 203.0.113.9 | IPv4 in IPv6 is IPv4
mapped in hexadecimal      | 10.0.0.0/8 | 10.0.0.1 | 203.0.113.9, ::ffff:a00:2          | 203.0.113.9 | the same address spelt otherwise
mapped in brackets         | 10.0.0.0/8 | 10.0.0.1 | 203.0.113.9, [::ffff:10.0.0.2]:80  | 203.0.113.9 | all at once
IPv4 with a port           | 1          | 10.0.0.1 | 6.6.6.6, 203.0.113.9:4711          | 203.0.113.9 | a new port is no new client
IPv6 plain                 | 1          | 10.0.0.1 | 6.6.6.6, 2001:db8::17              | 2001:db8::17 | no port without brackets
IPv6 in brackets           | 1          | 10.0.0.1 | 6.6.6.6, [2001:db8::17]            | 2001:db8::17 | brackets are dropped
IPv6 with a port           | 1          | 10.0.0.1 | 6.6.6.6, [2001:db8::17]:4711       | 2001:db8::17 | a new port is no new client
IPv6 in capitals           | 1          | 10.0.0.1 | 2001:DB8::AbCd                     | 2001:db8::abcd | the same address spelt otherwise
IPv6 in full               | 1          | 10.0.0.1 | 2001:0db8:0000:0000:0000:0000:0000:0017 | 2001:db8::17 | the same address spelt otherwise
zone                       | 1          | 10.0.0.1 | fe80::17%eth0                      | fe80::17    | a zone is dropped
zone in brackets           | 1          | 10.0.0.1 | [fe80::17%25eth0]:80               | fe80::17    | a zone is dropped
zone on a proxy            | fe80::/10  | fe80::1  | 203.0.113.9, fe80::2%eth1          | 203.0.113.9 | matches without its zone
much space                 | 2          | 10.0.0.1 | 6.6.6.6  ,<tab> 203.0.113.9 <tab>,   10.0.0.2  | 203.0.113.9 | spaces and tabs around entries do not count
no space                   | 2          | 10.0.0.1 | 6.6.6.6,203.0.113.9,10.0.0.2       | 203.0.113.9 | nor need there be any
largest port               | 1          | 10.0.0.1 | 203.0.113.9:65535                  | 203.0.113.9 | a port
",
    );
}

#[test]
fn malformed_entry_ends_the_walk_at_the_last_valid_address() {
    assert_cases(
        HEADER,
        "
malformed at once           | 1                | 10.0.0.1 | 6.6.6.6, nonsense                 | 10.0.0.1 | the peer was the last good one
malformed behind a proxy    | 10.0.0.0/8       | 10.0.0.1 | 6.6.6.6, nonsense, 10.0.0.2       | 10.0.0.2 | the walk does not jump over it
malformed behind two hops   | 3                | 10.0.0.1 | 6.6.6.6, nonsense, 10.0.0.2       | 10.0.0.2 | it does not count as a hop
malformed, all trusted      | 0.0.0.0/0 ::/0   | 10.0.0.1 | 6.6.6.6, nonsense, 10.0.0.2       | 10.0.0.2 | it matches no network, not even all of them
malformed left of the client | 1               | 10.0.0.1 | nonsense, 203.0.113.9             | 203.0.113.9 | what the client wrote is not reached
empty entry                 | 3                | 10.0.0.1 | 6.6.6.6, , 10.0.0.2               | 10.0.0.2 | an empty entry is malformed
comma at the end            | 1                | 10.0.0.1 | 6.6.6.6,                          | 10.0.0.1 | an empty entry is malformed
comma at the start          | 9                | 10.0.0.1 | , 203.0.113.9                     | 203.0.113.9 | an empty entry is malformed
only commas                 | 9                | 10.0.0.1 | ,,,,,                             | 10.0.0.1 | empty entries are malformed
only space                  | 9                | 10.0.0.1 | <tab> <tab>                       | 10.0.0.1 | an empty entry is malformed
empty line at the end       | 2                | 10.0.0.1 | 6.6.6.6 // <empty>                | 10.0.0.1 | an empty line is an empty entry
empty line between          | 3                | 10.0.0.1 | 6.6.6.6 // <empty> // 10.0.0.2    | 10.0.0.2 | an empty line is an empty entry
unknown                     | 2                | 10.0.0.1 | 6.6.6.6, unknown                  | 10.0.0.1 | a proxy that does not tell
hidden                      | 2                | 10.0.0.1 | 6.6.6.6, _hidden                  | 10.0.0.1 | a proxy that does not tell
leading zero                | 1                | 10.0.0.1 | 203.0.113.09                      | 10.0.0.1 | programs disagree what that is
leading zero of a proxy     | 10.0.0.0/8       | 10.0.0.1 | 6.6.6.6, 010.0.0.2                | 10.0.0.1 | 8.0.0.2 to some
leading zero in mapped      | 10.0.0.0/8       | 10.0.0.1 | 6.6.6.6, ::ffff:010.0.0.2         | 10.0.0.1 | in IPv6 too
hexadecimal IPv4            | 1                | 10.0.0.1 | 0x0a.0.0.2                        | 10.0.0.1 | not an address
one number                  | 1                | 10.0.0.1 | 167772162                         | 10.0.0.1 | not an address
three numbers               | 1                | 10.0.0.1 | 10.0.2                            | 10.0.0.1 | not an address
five numbers                | 1                | 10.0.0.1 | 10.0.0.0.2                        | 10.0.0.1 | not an address
too large a number          | 1                | 10.0.0.1 | 10.0.0.256                        | 10.0.0.1 | not an address
a network                   | 1                | 10.0.0.1 | 6.6.6.0/24                        | 10.0.0.1 | not an address
two in one entry            | 1                | 10.0.0.1 | 6.6.6.6 203.0.113.9               | 10.0.0.1 | not an address
other separator             | 1                | 10.0.0.1 | 6.6.6.6; 203.0.113.9              | 10.0.0.1 | not an address
in quotes                   | 1                | 10.0.0.1 | \"203.0.113.9\"                   | 10.0.0.1 | this header has no quotes
as if Forwarded             | 1                | 10.0.0.1 | for=6.6.6.6                       | 10.0.0.1 | that is the other header
no port after the colon     | 1                | 10.0.0.1 | 6.6.6.6:                          | 10.0.0.1 | not a port
too large a port            | 1                | 10.0.0.1 | 6.6.6.6:65536                     | 10.0.0.1 | not a port
signed port                 | 1                | 10.0.0.1 | 6.6.6.6:+80                       | 10.0.0.1 | not a port
port that is a word         | 1                | 10.0.0.1 | 6.6.6.6:http                      | 10.0.0.1 | not a port
bracket not closed          | 1                | 10.0.0.1 | [2001:db8::17                     | 10.0.0.1 | half a bracket
bracket not opened          | 1                | 10.0.0.1 | 2001:db8::17]:80                  | 10.0.0.1 | half a bracket
brackets twice              | 1                | 10.0.0.1 | [[2001:db8::17]]                  | 10.0.0.1 | a bracket too many
after the bracket           | 1                | 10.0.0.1 | [2001:db8::17]80                  | 10.0.0.1 | no colon before the port
nothing in brackets         | 1                | 10.0.0.1 | []:80                             | 10.0.0.1 | not an address
no zone after the sign      | 1                | 10.0.0.1 | fe80::1%                          | 10.0.0.1 | not a zone
zone on IPv4                | 1                | 10.0.0.1 | 6.6.6.6%eth0                      | 10.0.0.1 | IPv4 has no zones
nine groups                 | 1                | 10.0.0.1 | 1:2:3:4:5:6:7:8:9                 | 10.0.0.1 | not an address
not ASCII                   | 1                | 10.0.0.1 | 203.0.113.\u{0669}                | 10.0.0.1 | a nine, but not that of addresses
zone that is not ASCII      | 1                | 10.0.0.1 | fe80::1%\u{fc}                    | 10.0.0.1 | no such zone
invisible space             | 1                | 10.0.0.1 | \u{a0}6.6.6.6                     | 10.0.0.1 | only spaces and tabs are space
",
    );
}
