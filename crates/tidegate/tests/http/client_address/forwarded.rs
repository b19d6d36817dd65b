//! `Forwarded`, of RFC 7239.

use super::assert_cases;

const HEADER: &str = "forwarded";

#[test]
fn elements_are_read_like_x_forwarded_for_entries() {
    assert_cases(
        HEADER,
        r#"
nobody trusted              | nobody     | 203.0.113.9 | for=6.6.6.6                               | 203.0.113.9 | nothing is believed by default
untrusted peer              | 10.0.0.0/8 | 203.0.113.9 | for=6.6.6.6                               | 203.0.113.9 | its header is not looked at
one hop                     | 1          | 10.0.0.1    | for=203.0.113.9                           | 203.0.113.9 | the proxy that connects wrote the rightmost
one hop, spoofed            | 1          | 10.0.0.1    | for=6.6.6.6, for=203.0.113.9              | 203.0.113.9 | the client wrote what is left of it
two hops in two lines       | 2          | 10.0.0.1    | for=6.6.6.6 // for=203.0.113.9 // for=10.0.0.2 | 203.0.113.9 | several lines are one list
hops beyond the list        | 9          | 10.0.0.1    | for=203.0.113.9, for=10.0.0.2             | 203.0.113.9 | clamped to the leftmost
proxies skipped             | 10.0.0.0/8 | 10.0.0.1    | for=6.6.6.6, for=203.0.113.9, for="10.0.0.2:80" | 203.0.113.9 | trusted ones are skipped
all trusted                 | 10.0.0.0/8 | 10.0.0.1    | for=10.0.0.3, for=10.0.0.2                | 10.0.0.3    | the leftmost
no header                   | 1          | 10.0.0.1    | -                                         | 10.0.0.1    | nobody said anything
empty line                  | 1          | 10.0.0.1    | <empty>                                   | 10.0.0.1    | nobody said anything
"#,
    );
}

#[test]
fn quotes_spaces_escapes_and_other_parameters_are_parsed() {
    assert_cases(
        HEADER,
        r#"
the standard's example      | 1 | 10.0.0.1 | For="[2001:db8:cafe::17]:4711"                        | 2001:db8:cafe::17 | quotes, brackets and port are dropped
the standard's other one    | 1 | 10.0.0.1 | for=192.0.2.60;proto=http;by=203.0.113.43             | 192.0.2.60   | `by` is the proxy
in capitals                 | 1 | 10.0.0.1 | FOR=203.0.113.9                                       | 203.0.113.9  | names have no case
in mixed case               | 1 | 10.0.0.1 | fOr=203.0.113.9                                       | 203.0.113.9  | names have no case
IPv4 in quotes              | 1 | 10.0.0.1 | for="203.0.113.9"                                     | 203.0.113.9  | quotes are dropped
IPv4 and port in quotes     | 1 | 10.0.0.1 | for="203.0.113.9:80"                                  | 203.0.113.9  | a new port is no new client
hidden port                 | 1 | 10.0.0.1 | for="203.0.113.9:_p-1.x"                              | 203.0.113.9  | a port may be hidden
IPv6 without quotes         | 1 | 10.0.0.1 | for=[2001:db8::17]:80                                 | 2001:db8::17 | not by the letter, but plain enough
IPv6 without brackets       | 1 | 10.0.0.1 | for="2001:db8::17"                                    | 2001:db8::17 | not by the letter, but plain enough
mapped                      | 1 | 10.0.0.1 | for="[::ffff:203.0.113.9]"                            | 203.0.113.9  | IPv4 in IPv6 is IPv4
zone                        | 1 | 10.0.0.1 | for="[fe80::17%eth0]"                                 | fe80::17     | a zone is dropped
escaped in quotes           | 1 | 10.0.0.1 | for="\2\0\3.0.113\.9"                                 | 203.0.113.9  | an escaped byte is that byte
escaped brackets            | 1 | 10.0.0.1 | for="\[2001:db8::17\]"                                | 2001:db8::17 | an escaped byte is that byte
not the first parameter     | 1 | 10.0.0.1 | by=10.0.0.1;proto=https;for=203.0.113.9;host=x        | 203.0.113.9  | in any place
spaces around semicolons    | 1 | 10.0.0.1 | proto=http ; <tab>for=203.0.113.9<tab>; by=10.0.0.1   | 203.0.113.9  | some proxies write them
spaces around elements      | 1 | 10.0.0.1 | for=6.6.6.6 <tab>,<tab>  for="203.0.113.9" <tab>      | 203.0.113.9  | as in any list
no space at all             | 1 | 10.0.0.1 | for=6.6.6.6,for=203.0.113.9                           | 203.0.113.9  | as in any list
missing parameters          | 1 | 10.0.0.1 | ;;for=203.0.113.9;;                                   | 203.0.113.9  | the grammar allows them
comma in quotes             | 1 | 10.0.0.1 | for=203.0.113.9;host="a,for=6.6.6.6"                  | 203.0.113.9  | a comma in quotes divides nothing
semicolon in quotes         | 1 | 10.0.0.1 | host="a;for=6.6.6.6";for=203.0.113.9                  | 203.0.113.9  | nor does a semicolon
quote in quotes             | 1 | 10.0.0.1 | for=203.0.113.9;host="a\",for=6.6.6.6,\""             | 203.0.113.9  | an escaped quote ends nothing
backslash at the end        | 2 | 10.0.0.1 | for=203.0.113.9, for=10.0.0.2;host="a\\"              | 203.0.113.9  | an escaped backslash escapes nothing
backslashes and a quote     | 2 | 10.0.0.1 | for=203.0.113.9, for=10.0.0.2;host="\\\",x=\\"        | 203.0.113.9  | three and a quote are an escaped quote
empty quotes                | 2 | 10.0.0.1 | for=203.0.113.9;host="", for=10.0.0.2;host=""         | 203.0.113.9  | nothing in quotes
other value with a colon    | 1 | 10.0.0.1 | for=203.0.113.9;host=example.org:8080                 | 203.0.113.9  | not by the letter, but none of our business
name that ends in for       | 1 | 10.0.0.1 | x-for=6.6.6.6;for=203.0.113.9                         | 203.0.113.9  | another name
"#,
    );
}

#[test]
fn unclosed_quote_does_not_swallow_entries_of_proxies() {
    assert_cases(
        HEADER,
        r#"
quote not closed            | 1          | 10.0.0.1 | for="6.6.6.6, for=203.0.113.9                  | 203.0.113.9 | from the left, the proxy's word would be in quotes
quote not closed, in quotes | 1          | 10.0.0.1 | for="6.6.6.6, for="203.0.113.9"                | 203.0.113.9 | nor does the proxy's quote close it
quote not closed, two hops  | 2          | 10.0.0.1 | host=", for=203.0.113.9;host="a", for=10.0.0.2 | 203.0.113.9 | the same further left
quote not closed, in a line | 1          | 10.0.0.1 | for=6.6.6.6;host=" // for=203.0.113.9          | 203.0.113.9 | quotes do not reach over lines
escape before the comma     | 1          | 10.0.0.1 | for="6.6.6.6\, for=203.0.113.9                 | 203.0.113.9 | an escape outside escapes nothing
element not ended           | 1          | 10.0.0.1 | for=6.6.6.6;, for=203.0.113.9                  | 203.0.113.9 | the comma ends it
beyond the proxies          | 3          | 10.0.0.1 | for=6.6.6.6, host=", for=203.0.113.9           | 203.0.113.9 | an open quote makes all left of it one malformed element
closed by the next          | 10.0.0.0/8 | 10.0.0.1 | for=6.6.6.6, ", for=10.0.0.2, "                | 10.0.0.1    | all of it in quotes, and malformed
"#,
    );
}

#[test]
fn malformed_element_ends_the_walk_at_the_last_valid_address() {
    assert_cases(
        HEADER,
        r#"
unknown                     | 2 | 10.0.0.1 | for=6.6.6.6, for=unknown                       | 10.0.0.1 | a proxy that does not tell
unknown behind a proxy      | 3 | 10.0.0.1 | for=6.6.6.6, for=unknown, for=10.0.0.2         | 10.0.0.2 | the walk does not jump over it
hidden                      | 2 | 10.0.0.1 | for=6.6.6.6, for="_gazonk"                     | 10.0.0.1 | a proxy that does not tell
unknown, all trusted        | 0.0.0.0/0 ::/0 | 10.0.0.1 | for=6.6.6.6, for=unknown          | 10.0.0.1 | it matches no network
no for                      | 2 | 10.0.0.1 | for=6.6.6.6, by=10.0.0.1;proto=http            | 10.0.0.1 | it says no address
for twice                   | 1 | 10.0.0.1 | for=6.6.6.6;for=203.0.113.9                    | 10.0.0.1 | once for each element, says the standard
for twice, by a host        | 1 | 10.0.0.1 | for=203.0.113.9;host=a;for=6.6.6.6             | 10.0.0.1 | what a client can do to a proxy that does not quote
empty element               | 3 | 10.0.0.1 | for=6.6.6.6, , for=10.0.0.2                    | 10.0.0.2 | it says no address
only semicolons             | 2 | 10.0.0.1 | for=6.6.6.6, ;;;                               | 10.0.0.1 | it says no address
bare address                | 1 | 10.0.0.1 | 6.6.6.6                                        | 10.0.0.1 | that is the other header
for without a value         | 1 | 10.0.0.1 | for=                                           | 10.0.0.1 | not an address
for with empty quotes       | 1 | 10.0.0.1 | for=""                                         | 10.0.0.1 | not an address
for without a sign          | 1 | 10.0.0.1 | for                                            | 10.0.0.1 | not a parameter
no name                     | 1 | 10.0.0.1 | =1;for=6.6.6.6                                 | 10.0.0.1 | not a parameter
no value before             | 1 | 10.0.0.1 | x;for=6.6.6.6                                  | 10.0.0.1 | not a parameter
space before the sign       | 1 | 10.0.0.1 | for =6.6.6.6                                   | 10.0.0.1 | the grammar has none there
space after the sign        | 1 | 10.0.0.1 | for= 6.6.6.6                                   | 10.0.0.1 | the grammar has none there
space in quotes             | 1 | 10.0.0.1 | for=" 6.6.6.6"                                 | 10.0.0.1 | in quotes a space is a byte
two in quotes               | 1 | 10.0.0.1 | for="6.6.6.6, 203.0.113.9"                     | 10.0.0.1 | one element with no address
after the quotes            | 1 | 10.0.0.1 | for="6.6.6.6"x                                 | 10.0.0.1 | quotes end the value
no semicolon                | 1 | 10.0.0.1 | for="6.6.6.6"proto=http                        | 10.0.0.1 | a semicolon is between parameters
quote inside                | 1 | 10.0.0.1 | for=6.6"6".6                                   | 10.0.0.1 | quotes begin the value
quote in another's value    | 1 | 10.0.0.1 | host=a"b";for=6.6.6.6                          | 10.0.0.1 | what ends where is anybody's guess
quote in a name             | 1 | 10.0.0.1 | "a"=b;for=6.6.6.6                              | 10.0.0.1 | a name has no quotes
lone quote                  | 1 | 10.0.0.1 | for=6.6.6.6"                                   | 10.0.0.1 | half a quote
lone escape                 | 1 | 10.0.0.1 | for="6.6.6.6\"                                 | 10.0.0.1 | the quote is escaped and none is left
leading zero                | 1 | 10.0.0.1 | for="06.6.6.6"                                 | 10.0.0.1 | programs disagree what that is
leading zero, escaped       | 1 | 10.0.0.1 | for="\06.6.6.6"                                | 10.0.0.1 | an escaped byte is that byte
not a hidden port           | 1 | 10.0.0.1 | for="6.6.6.6:_"                                | 10.0.0.1 | a hidden port has a name
not ASCII                   | 1 | 10.0.0.1 | for=６.6.6.6                                   | 10.0.0.1 | a six, but not that of addresses
"#,
    );
}
