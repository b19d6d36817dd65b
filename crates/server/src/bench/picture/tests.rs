use std::time::Duration;

use clap::Parser;
use tokio::time::Instant;

use super::*;
use crate::bench::client::{Answer, Refusal};
use crate::bench::plan::Plan;
use crate::bench::tally::Tally;
use crate::cli::{Cli, Verb};

/// The picture of a run of 10 seconds that ended after `sending`, with these answers: after so many milliseconds, after
/// waiting so many.
fn picture(arguments: &[&str], sending: Duration, answers: &[(u64, u64, Answer)]) -> String {
    let cli = Cli::parse_from(["tidegate", "bench", "--picture", "off"].iter().chain(arguments));
    let Some(Verb::Bench(bench)) = cli.verb else { panic!("the verb is bench") };
    let plan = Plan::of(&bench).expect("these arguments go together");
    let begun = Instant::now();
    let tally = Tally::new(plan.servers.len(), begun, plan.duration);
    for (at, waited, answer) in answers {
        let now = begun + Duration::from_millis(*at);
        let answer = match answer {
            Answer::Refused(refusal) => Answer::Refused(refusal.clone()),
            Answer::Denied => Answer::Denied,
            _ => Answer::Allowed,
        };
        tally.count(0, std::iter::once((answer, now - Duration::from_millis(*waited), now)));
    }
    tally.end(begun + sending);
    let (counted, slot) = tally.finish();
    let unsent = vec![0; plan.servers.len()];
    let outcome = Outcome { counted, slot, took: sending, sending, unsent };
    draw(&plan.describe(), &Report::of(&plan, &outcome), &outcome)
}

/// Whether every element ends where it has to, quotes are closed, and nothing stands outside.
fn check_well_formed(text: &str) {
    let mut open = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let between = &rest[..start];
        assert!(!between.contains('>') && (!open.is_empty() || between.trim().is_empty()), "{between}");
        for entity in between.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;"];
            assert!(known.iter().any(|known| entity.starts_with(known)), "{entity}");
        }
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "{tag}");
        let name = |tag: &str| tag.split([' ', '/']).next().unwrap_or_default().to_owned();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed));
        } else if !tag.ends_with('/') {
            open.push(name(tag));
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
}

/// The value of an attribute of every element of a class.
fn attributes<'a>(svg: &'a str, class: &str, attribute: &str) -> Vec<&'a str> {
    let of = |line: &'a str| {
        let after = line.split_once(&format!(" {attribute}=\""))?.1;
        after.split('"').next()
    };
    svg.lines().filter(|line| line.contains(&format!("class=\"{class}\""))).filter_map(of).collect()
}

/// An answer in every point of a run of 10 seconds.
fn everywhere(answer: impl Fn(u64) -> (u64, Answer)) -> Vec<(u64, u64, Answer)> {
    (0..50).map(|point| (point * 200 + 100, answer(point))).map(|(at, (waited, answer))| (at, waited, answer)).collect()
}

const URL: &str = "http://127.0.0.1:8080";
const WHOLE: Duration = Duration::from_secs(10);

#[test]
fn there_is_a_place_for_every_point() {
    let svg = picture(
        &[URL],
        WHOLE,
        &everywhere(|point| (1 + point, if point < 10 { Answer::Allowed } else { Answer::Denied })),
    );
    check_well_formed(&svg);
    for (name, _, _) in LATENCIES {
        let lines = attributes(&svg, name, "points");
        assert_eq!(lines.len(), 1, "{name}");
        assert_eq!(lines[0].split(' ').count(), 50, "{name}");
    }
    for name in ["allowed", "denied"] {
        let areas = attributes(&svg, name, "d");
        // There and back again.
        assert_eq!(areas[0].matches('H').count(), 100, "{name}");
        let ends: Vec<_> = areas[0].split('H').skip(1).map(|x| x.split(['V', 'Z']).next().unwrap()).collect();
        assert_eq!([ends[0], ends[49], ends[50], ends[99]], ["101.0", "936.0", "919.0", "84.0"], "{name}");
    }
    assert!(attributes(&svg, "errors", "d").is_empty(), "no errors, no colour for them");
}

#[test]
fn layers_stand_on_each_other() {
    let error = || Answer::Refused(Box::new(Refusal { kind: "x".into(), message: "y".into(), passing: true }));
    let answers = [(100, 1, Answer::Allowed), (100, 1, Answer::Denied), (100, 1, Answer::Denied), (100, 1, error())];
    let svg = picture(&[URL], WHOLE, &answers);
    check_well_formed(&svg);
    // 5, 15 and 20 a second in the first point, of 20 that the scale has: its top, and what it stands on.
    let ends = |class| {
        let heights: Vec<_> = attributes(&svg, class, "d")[0].split('V').skip(1).collect();
        [heights[0], heights[99]].map(|height| height.split('H').next().unwrap().to_owned())
    };
    assert_eq!(ends("allowed"), ["254.0", "304.0"]);
    assert_eq!(ends("denied"), ["154.0", "254.0"]);
    assert_eq!(ends("errors"), ["104.0", "154.0"]);
}

#[test]
fn where_nothing_was_decided_there_is_a_gap() {
    // 20 points, a gap of 10, one point, and another gap.
    let mut answers = everywhere(|_| (5, Answer::Allowed));
    answers.truncate(31);
    answers.drain(20..30);
    let svg = picture(&[URL], WHOLE, &answers);
    check_well_formed(&svg);
    let lengths: Vec<_> = attributes(&svg, "p99", "points").iter().map(|line| line.split(' ').count()).collect();
    assert_eq!(lengths, [20]);
    assert_eq!(attributes(&svg, "p99", "cx").len(), 1, "a point alone is a dot");
}

#[test]
fn also_short_runs_and_empty_ones_are_drawn() {
    for (sending, answers) in [
        (Duration::ZERO, vec![]),
        (Duration::from_millis(1), vec![]),
        (Duration::from_millis(1_234), vec![(1_000, 1, Answer::Allowed)]),
        (WHOLE, vec![(15_000, 14_000, Answer::Allowed)]),
        (WHOLE, vec![(5_000, 0, Answer::Allowed)]),
    ] {
        let svg = picture(&[URL], sending, &answers);
        check_well_formed(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{sending:?}: {svg}");
    }
}

#[test]
fn names_are_escaped() {
    let svg = picture(&[URL, "redis://h:1", "grpc://[::1]:2", "http://a:1"], WHOLE, &[]);
    check_well_formed(&svg);
    assert!(svg.contains("<title>tidegate bench http://127.0.0.1:8080 and 3 others</title>"), "{svg}");
    assert_eq!(escaped("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
}
