//! The controllers behave as the docs say, against a simulated server whose best limit is known.

use std::time::Duration;

use tidegate::concurrency::{Aimd, Concurrency, Gradient2, Vegas};
use tidegate_examples::overload::{
    Contender, Figures, PICTURE, SERVERS, Scene, Server, picture, settled, sustained_overload, table,
};

/// The guide, which has the table.
const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/book/src/explanation/concurrency.md");

/// Asserts that the mean limit is within a fifth of the best one, and the throughput is at least 85% of the capacity.
/// The mean latency must be at most a quarter above that without load.
#[track_caller]
fn assert_near_the_best(figures: Figures, what: &str) {
    let Figures { limit, answered, took } = figures;
    println!("{what}: {limit:.2} of the best limit, {answered:.2} of the best throughput, {took:.2} of the best time");
    assert!((0.8..=1.2).contains(&limit) && answered >= 0.85 && took <= 1.25, "{what}: {figures:?}");
}

/// Asserts that a limit settles within 40 seconds, from a limit of 20 and under three times the load from the start.
fn assert_settles(contender: Contender) {
    for server in SERVERS {
        for seed in 1..=3 {
            let moments = sustained_overload(server, seed).play(contender.limit(&server));
            let what = format!("{}, knee {}, seed {seed}", contender.name(), server.knee());
            assert_near_the_best(Figures::from_moments(&server, settled(&moments)), &what);
        }
    }
}

#[test]
fn aimd_with_a_target_settles_within_a_fifth_of_the_best_limit() {
    assert_settles(Contender::Aimd);
}

#[test]
fn gradient2_settles_within_a_fifth_of_the_best_limit() {
    assert_settles(Contender::Gradient2);
}

#[test]
fn vegas_settles_within_a_fifth_of_the_best_limit() {
    assert_settles(Contender::Vegas);
}

#[test]
fn limit_recovers_within_half_a_minute_after_an_outage() {
    for contender in Contender::OURS {
        for server in SERVERS {
            let scene = Scene { load: vec![(3.0, 100)], outage: Some((40, 50)), ..sustained_overload(server, 5) };
            let moments = scene.play(contender.limit(&server));
            let what = format!("{}, knee {}", contender.name(), server.knee());
            let lowest = moments[400..520].iter().map(|moment| moment.limit).min();
            assert!(
                lowest.is_some_and(|limit| f64::from(limit) < server.knee() / 2.0),
                "{what}: {lowest:?} in the outage"
            );
            assert_near_the_best(Figures::from_moments(&server, &moments[800..]), &what);
        }
    }
}

#[test]
fn tenfold_limit_comes_down_within_forty_seconds() {
    for server in SERVERS {
        let (initial, target) = (server.knee() as u32 * 10, Duration::from_micros(server.unloaded_latency() * 11 / 10));
        let limits = [
            ("Aimd", Concurrency::adaptive(Aimd::default().initial(initial).max(initial).target(target))),
            ("Gradient2", Concurrency::adaptive(Gradient2::default().initial(initial).max(initial))),
            ("Vegas", Concurrency::adaptive(Vegas::default().initial(initial).max(initial))),
        ];
        for (name, limit) in limits {
            let scene = Scene { load: vec![(0.5, 10), (3.0, 60)], ..sustained_overload(server, 10) };
            let figures = Figures::from_moments(&server, &scene.play(limit)[500..]);
            assert!((0.8..1.3).contains(&figures.limit), "{name}, knee {}: {figures:?}", server.knee());
        }
    }
}

#[test]
fn an_hour_of_light_load_does_not_move_the_limit() {
    let server = Server { workers: 2, work: 10_000, wait: 30_000 };
    for contender in Contender::OURS {
        let scene = Scene { load: vec![(0.1, 3_600)], ..sustained_overload(server, 6) };
        let moments = scene.play(contender.limit(&server));
        assert!(moments.iter().all(|moment| moment.limit == 20 && moment.shed == 0), "{}", contender.name());
    }
}

#[test]
fn busy_service_below_capacity_sheds_nothing() {
    let server = Server { workers: 8, work: 5_000, wait: 15_000 };
    for contender in Contender::OURS {
        let scene = Scene { load: vec![(0.8, 120)], ..sustained_overload(server, 7) };
        let moments = scene.play(contender.limit(&server));
        let shed: u32 = moments[100..].iter().map(|moment| moment.shed).sum();
        assert_eq!(shed, 0, "{}", contender.name());
    }
}

#[test]
fn gradient2_settles_above_the_best_limit_by_its_tolerance() {
    let server = Server { workers: 30, work: 10_000, wait: 30_000 };
    let limit = Concurrency::adaptive(Gradient2::default().tolerance(1.5));
    let moments = sustained_overload(server, 8).play(limit);
    let figures = Figures::from_moments(&server, settled(&moments));
    assert!((1.4..1.6).contains(&figures.limit), "{figures:?}");
}

#[test]
fn equal_scenes_give_equal_runs() {
    let scene = Scene { load: vec![(3.0, 5)], ..sustained_overload(SERVERS[0], 9) };
    let run = || scene.play(Contender::Gradient2.limit(&scene.server));
    assert_eq!(run(), run());
}

#[test]
fn table_in_the_guide_is_up_to_date() {
    let guide = std::fs::read_to_string(GUIDE).unwrap_or_default();
    let how = "cargo run -p tidegate-examples --example overload -- --table";
    assert!(
        guide.contains(&table()),
        "docs/book/src/explanation/concurrency.md does not have the table that this prints: {how}"
    );
}

#[test]
fn picture_in_the_docs_is_up_to_date() {
    let kept = std::fs::read_to_string(PICTURE).unwrap_or_default();
    let how = "cargo run -p tidegate-examples --example overload > docs/pictures/overload.svg";
    assert!(kept == picture(), "docs/pictures/overload.svg is not what the code does; draw it anew: {how}");
}
