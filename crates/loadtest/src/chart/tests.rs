//! Tests of the chart as SVG.

use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::LoadTest;
use crate::client::{RequestError, Verdict};
use crate::run::Outcome;
use crate::tally::Tally;

/// Returns the chart of a test of 10 seconds that ended after `sending`. Each response has its time and its latency,
/// both in milliseconds.
fn chart(urls: &[&str], sending: Duration, responses: &[(u64, u64, Verdict)]) -> String {
    let targets: Vec<_> = urls.iter().map(|url| url.parse().expect("a target")).collect();
    let test = LoadTest::new(targets);
    let started = Instant::now();
    let tally = Tally::new(test.targets.len(), started, test.duration);
    for (at, waited, verdict) in responses {
        let now = started + Duration::from_millis(*at);
        let verdict = match verdict {
            Verdict::Failed(error) => Verdict::Failed(error.clone()),
            Verdict::Denied => Verdict::Denied,
            _ => Verdict::Allowed,
        };
        tally.count(0, std::iter::once((verdict, now - Duration::from_millis(*waited), now)));
    }
    tally.end(started + sending);
    let (measurements, interval_length) = tally.finish();
    let unsent = vec![0; test.targets.len()];
    draw(&Report::new(&test, Outcome { measurements, interval_length, took: sending, sending, unsent }))
}

/// Asserts that every element ends in the right place, quotes are closed, and no text is outside of elements.
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

/// Returns the value of an attribute of every element of a class.
fn attributes<'a>(svg: &'a str, class: &str, attribute: &str) -> Vec<&'a str> {
    let of = |line: &'a str| {
        let after = line.split_once(&format!(" {attribute}=\""))?.1;
        after.split('"').next()
    };
    svg.lines().filter(|line| line.contains(&format!("class=\"{class}\""))).filter_map(of).collect()
}

/// Returns a response in every interval of a run of 10 seconds.
fn one_response_per_interval(verdict: impl Fn(u64) -> (u64, Verdict)) -> Vec<(u64, u64, Verdict)> {
    (0..50)
        .map(|point| (point * 200 + 100, verdict(point)))
        .map(|(at, (waited, verdict))| (at, waited, verdict))
        .collect()
}

const URL: &str = "http://127.0.0.1:8080";
const FULL_DURATION: Duration = Duration::from_secs(10);

#[test]
fn every_interval_is_drawn() {
    let svg = chart(
        &[URL],
        FULL_DURATION,
        &one_response_per_interval(|point| (1 + point, if point < 10 { Verdict::Allowed } else { Verdict::Denied })),
    );
    check_well_formed(&svg);
    for (name, _, _) in LATENCIES {
        let lines = attributes(&svg, name, "points");
        assert_eq!(lines.len(), 1, "{name}");
        assert_eq!(lines[0].split(' ').count(), 50, "{name}");
    }
    for name in ["allowed", "denied"] {
        let areas = attributes(&svg, name, "d");
        // Each area goes there and back again.
        assert_eq!(areas[0].matches('H').count(), 100, "{name}");
        let ends: Vec<_> = areas[0].split('H').skip(1).map(|x| x.split(['V', 'Z']).next().unwrap()).collect();
        assert_eq!([ends[0], ends[49], ends[50], ends[99]], ["101.0", "936.0", "919.0", "84.0"], "{name}");
    }
    assert!(attributes(&svg, "errors", "d").is_empty(), "no errors, no colour for them");
}

#[test]
fn throughput_layers_are_stacked() {
    let error =
        || Verdict::Failed(Box::new(RequestError { kind: "x".into(), message: "y".into(), is_transient: true }));
    let responses =
        [(100, 1, Verdict::Allowed), (100, 1, Verdict::Denied), (100, 1, Verdict::Denied), (100, 1, error())];
    let svg = chart(&[URL], FULL_DURATION, &responses);
    check_well_formed(&svg);
    // The first point has 5, 15 and 20 a second, on a scale up to 20. `ends` returns the top and the bottom of a layer.
    let ends = |class| {
        let heights: Vec<_> = attributes(&svg, class, "d")[0].split('V').skip(1).collect();
        [heights[0], heights[99]].map(|height| height.split('H').next().unwrap().to_owned())
    };
    assert_eq!(ends("allowed"), ["254.0", "304.0"]);
    assert_eq!(ends("denied"), ["154.0", "254.0"]);
    assert_eq!(ends("errors"), ["104.0", "154.0"]);
}

#[test]
fn an_interval_without_decision_is_a_gap() {
    // 20 points, a gap of 10, one point, and another gap.
    let mut responses = one_response_per_interval(|_| (5, Verdict::Allowed));
    responses.truncate(31);
    responses.drain(20..30);
    let svg = chart(&[URL], FULL_DURATION, &responses);
    check_well_formed(&svg);
    let lengths: Vec<_> = attributes(&svg, "p99", "points").iter().map(|line| line.split(' ').count()).collect();
    assert_eq!(lengths, [20]);
    assert_eq!(attributes(&svg, "p99", "cx").len(), 1, "a point alone is a dot");
}

#[test]
fn short_and_empty_runs_are_drawn() {
    for (sending, responses) in [
        (Duration::ZERO, vec![]),
        (Duration::from_millis(1), vec![]),
        (Duration::from_millis(1_234), vec![(1_000, 1, Verdict::Allowed)]),
        (FULL_DURATION, vec![(15_000, 14_000, Verdict::Allowed)]),
        (FULL_DURATION, vec![(5_000, 0, Verdict::Allowed)]),
    ] {
        let svg = chart(&[URL], sending, &responses);
        check_well_formed(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{sending:?}: {svg}");
    }
}

#[test]
fn target_names_are_escaped() {
    let svg = chart(&[URL, "redis://h:1", "grpc://[::1]:2", "http://a:1"], FULL_DURATION, &[]);
    check_well_formed(&svg);
    assert!(svg.contains("<title>tidegate bench http://127.0.0.1:8080 and 3 others</title>"), "{svg}");
    assert_eq!(escape("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
}
