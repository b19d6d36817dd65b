//! Names of policies that would break a header.

use sfv::{BareItem, List, ListEntry, Parser};
use tidegate::http::RateLimit;

use crate::clients;
use crate::support::{Server, bucket, limiter};

/// The one name in a list of strings with parameters.
fn name(value: &str) -> String {
    let list: List = Parser::new(value).parse().unwrap();
    let [ListEntry::Item(item)] = &list[..] else { panic!("{value}: not one item") };
    let BareItem::String(name) = &item.bare_item else { panic!("{value}: not a string") };
    name.as_str().to_owned()
}

#[tokio::test]
async fn no_name_can_break_a_header() {
    let names = [
        ("plain", "plain", r#""plain""#),
        ("a \"quoted\" name", "a \"quoted\" name", r#""a \"quoted\" name""#),
        (r"back\slash\", r"back\slash\", r#""back\\slash\\""#),
        ("100%", "100%", r#""100%""#),
        ("", "", r#""""#),
        (r#"x";q=9, "y"#, r#"x";q=9, "y"#, r#""x\";q=9, \"y""#),
        ("line\r\nset-cookie: a=b", "line%0D%0Aset-cookie: a=b", r#""line%0D%0Aset-cookie: a=b""#),
        ("tab\tand\0nul\x7f", "tab%09and%00nul%7F", r#""tab%09and%00nul%7F""#),
        ("tide 🌊 50%", "tide %F0%9F%8C%8A 50%25", r#""tide %F0%9F%8C%8A 50%25""#),
        ("größe", "gr%C3%B6%C3%9Fe", r#""gr%C3%B6%C3%9Fe""#),
    ];
    for (policy, told, written) in names {
        let limiter = limiter(bucket(1));
        let server = Server::behind(RateLimit::new(limiter.enforcer("api").unwrap().with_policy_name(policy))).await;
        for status in [200, 429] {
            let reply = clients::get(server.address).await;
            assert_eq!(reply.status, status);
            assert_eq!(reply.header("ratelimit-policy"), Some(&*format!("{written};q=1;w=60")));
            assert_eq!(reply.header("ratelimit"), Some(&*format!("{written};r=0;t=60")));
            assert_eq!(reply.header("set-cookie"), None);
            assert_eq!(name(reply.header("ratelimit-policy").unwrap()), told);
            assert_eq!(name(reply.header("ratelimit").unwrap()), told);
            if status == 429 {
                // Where any text can be written it is the name itself.
                assert_eq!(reply.problem()["violated-policies"], serde_json::json!([policy]));
            }
        }
    }
}
