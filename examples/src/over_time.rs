//! The requests that each algorithm admits over time, as a picture.
//!
//! The decisions are those of the real algorithms, asked through a [`Limiter`] whose clock is set to the time of each request. So
//! the picture cannot show what the code does not do.

use std::error::Error;
use std::fmt::Write;

use tidegate::{Lease, Limiter, ManualClock, MemoryStore, Quota, Timestamp, seconds};

use crate::svg::{pixels, text};

/// The picture that is kept in the repository.
pub const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/book/src/pictures/algorithms.svg");

/// How much each rate admits in a second, and the places of the concurrency limit.
const RATE: u64 = 10;
const PLACES: u64 = 4;
/// How long a request is at work, in milliseconds.
const WORK: u64 = 400;
/// One request every so many milliseconds, from the first to the last.
const EVERY: u64 = 20;
const FIRST: u64 = 500;
const LAST: u64 = 3_500;
/// Windows begin at whole seconds since the epoch, and the axis at one of them.
const ORIGIN: u64 = 1_000_000;

struct Plot {
    name: &'static str,
    note: &'static str,
    /// The times at which a request was admitted, in milliseconds.
    admitted: Vec<u64>,
}

/// Every algorithm under one load.
fn plots() -> Result<Vec<Plot>, Box<dyn Error>> {
    let period = seconds(1);
    let quotas = [
        ("token_bucket", "a burst of 10, then one every 0.1 s", Quota::token_bucket(RATE, period)?),
        ("fixed_window", "10 at once, in each window", Quota::fixed_window(RATE, period)?),
        ("sliding_window", "10, then as the last second fades", Quota::sliding_window(RATE, period)?),
        ("sliding_log", "10 in any second, exactly", Quota::sliding_log(RATE, period)?),
        ("concurrency", "4 at once, 0.4 s of work each", Quota::concurrency(PLACES, seconds(30))?),
    ];
    quotas.into_iter().map(|(name, note, quota)| Ok(Plot { name, note, admitted: admitted(quota)? })).collect()
}

/// Returns when a quota admits a request.
fn admitted(quota: Quota) -> Result<Vec<u64>, Box<dyn Error>> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().max_keys(1).clock(clock.clone()).build();
    let leases = quota.algorithm() == tidegate::Algorithm::Concurrency;
    let limiter = Limiter::builder().limit("plot", quota).store(store).build()?;
    let (mut admitted, mut at_work): (Vec<u64>, Vec<(u64, Lease)>) = (Vec::new(), Vec::new());
    for at in (FIRST..=LAST).step_by(EVERY as usize) {
        clock.set(Timestamp::from_millis(ORIGIN + at));
        let done = at_work.extract_if(.., |(until, _)| *until <= at);
        for (_, lease) in done {
            let _ = limiter.release("plot", "client", lease).try_now()?;
        }
        let allowed = if leases {
            let lease = limiter.admit("plot", "client").try_now()?.lease();
            at_work.extend(lease.map(|lease| (at + WORK, lease)));
            lease.is_some()
        } else {
            limiter.limit("plot", "client").try_now()?.allowed()
        };
        if allowed {
            admitted.push(at);
        }
    }
    Ok(admitted)
}

// All in tenths of a pixel.
const WIDTH: i64 = 9_000;
const HEIGHT: i64 = 5_900;
const CELL: (i64, i64) = (2_900, 2_600);
const PLOT: (i64, i64) = (2_480, 1_800);
const MAX_COUNT: i64 = 40;
const END: i64 = 4_000;

const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1f2328}
.t{font-weight:600}.n{font-size:11.5px;fill:#59636e}.s{font-size:11px;fill:#59636e}.e{text-anchor:end}.m{text-anchor:middle}
.b{fill:#fff}.p{fill:#f6f8fa}.x{stroke:#d1d9e0;stroke-width:1;shape-rendering:crispEdges}
.d{fill:none;stroke:#59636e;stroke-dasharray:5 4;stroke-width:1.2}.l{fill:none;stroke:#0969da;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n,.s{fill:#9198a1}.b{fill:#0d1117}.p{fill:#161b22}.x{stroke:#3d444d}
.d{stroke:#9198a1}.l{stroke:#58a6ff}}
";

/// The picture as an SVG, the same every time.
pub fn picture() -> Result<String, Box<dyn Error>> {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">The requests that each algorithm admits over time</title>\n\
         <desc id=\"desc\">A client sends a request every {EVERY} ms for three seconds. Five plots count what is admitted.</desc>\n\
         <style>\n{STYLE}</style>\n<rect class=\"b\" width=\"100%\" height=\"100%\"/>\n",
        pixels(WIDTH),
        pixels(HEIGHT),
    );
    for (index, plot) in plots()?.iter().enumerate() {
        draw(&mut svg, plot, place(index));
    }
    legend(&mut svg, place(5));
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// The upper left corner of a plot: three in a row.
fn place(index: usize) -> (i64, i64) {
    (360 + CELL.0 * (index as i64 % 3), 700 + (CELL.1 + 300) * (index as i64 / 3))
}

fn draw(svg: &mut String, plot: &Plot, (left, top): (i64, i64)) {
    let bottom = top + PLOT.1;
    let x = |at: u64| left + at as i64 * PLOT.0 / END;
    let y = |count: i64| bottom - count * PLOT.1 / MAX_COUNT;
    text(svg, "t", left, top - 300, plot.name);
    text(svg, "n", left, top - 100, plot.note);
    let (width, height) = (pixels(PLOT.0), pixels(PLOT.1));
    let _ = writeln!(
        svg,
        "<rect class=\"p\" x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\"/>",
        pixels(left),
        pixels(top)
    );
    for second in 0..=3 {
        let _ = writeln!(svg, "<path class=\"x\" d=\"M{} {}v-{height}\"/>", pixels(x(second * 1_000)), pixels(bottom));
        text(svg, "s m", x(second * 1_000), bottom + 170, &format!("{second} s"));
    }
    for count in (0..=MAX_COUNT).step_by(10) {
        text(svg, "s e", left - 50, y(count) + 40, &count.to_string());
    }
    // The rate alone, from the first request on.
    let rated = (END - FIRST as i64) * RATE as i64 / 1_000;
    let (from, to) = (x(FIRST), left + PLOT.0);
    let _ = writeln!(
        svg,
        "<path class=\"d\" d=\"M{} {}L{} {}\"/>",
        pixels(from),
        pixels(y(0)),
        pixels(to),
        pixels(y(rated))
    );
    let mut path = format!("M{} {}", pixels(left), pixels(y(0)));
    for (&at, count) in plot.admitted.iter().zip(1..) {
        let _ = write!(path, "H{}V{}", pixels(x(at)), pixels(y(count)));
    }
    let _ = writeln!(svg, "<path class=\"l\" d=\"{path}H{}\"/>", pixels(to));
}

fn legend(svg: &mut String, (left, top): (i64, i64)) {
    let lines = [
        ("t", "The load"),
        ("n", "From 0.5 s to 3.5 s, one client sends"),
        ("n", "50 requests a second. Each rate is"),
        ("n", "10 in 1 s. Windows begin at"),
        ("n", "whole seconds."),
    ];
    for ((class, line), index) in lines.into_iter().zip(0..) {
        text(svg, class, left, top - 300 + 200 * index, line);
    }
    let _ = writeln!(svg, "<path class=\"l\" d=\"M{} {}h26\"/>", pixels(left), pixels(top + 860));
    text(svg, "n", left + 340, top + 900, "admitted so far");
    let _ = writeln!(svg, "<path class=\"d\" d=\"M{} {}h26\"/>", pixels(left), pixels(top + 1_110));
    text(svg, "n", left + 340, top + 1_150, "the rate alone");
}
