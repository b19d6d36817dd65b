//! Draws runs as an SVG.

use std::fmt::Write;

use super::{Contender, Figures, Moment, Scene};
use crate::svg::{pixels, text};

// Lengths are in tenths of a pixel.
const WIDTH: i64 = 9_600;
const TOP: i64 = 1_150;
const ROW: i64 = 1_650;
const PANEL: (i64, i64) = (2_450, 1_100);
/// The left edges of the three columns: the limit, the latency and the requests.
const COLUMNS: [i64; 3] = [500, 3_700, 6_850];

/// The number of moments in one point of a line.
const POINT: usize = 2;

const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1f2328}
.t{font-weight:600;font-size:15px}.n{fill:#59636e}.s{font-size:11px;fill:#59636e}.e{text-anchor:end}.m{text-anchor:middle}
.b{fill:#fff}.p{fill:#f6f8fa}.x{stroke:#818b98;stroke-width:1;shape-rendering:crispEdges}
.d{fill:none;stroke:#59636e;stroke-dasharray:6 4;stroke-width:1.2}
.l{fill:none;stroke:#0969da;stroke-width:1.8}.k{fill:#0969da}.f{fill:#c6dcf5}.c{fill:none;stroke:#8250df;stroke-width:1.6}
.a{fill:#4ac26b}.w{fill:#cf222e}.h{fill:#d8dde3}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n,.s{fill:#9198a1}.b{fill:#0d1117}.p{fill:#161b22}
.x{stroke:#656c76}.d{stroke:#b1bac4}.l{stroke:#58a6ff}.k{fill:#58a6ff}.f{fill:#1f3a5f}.c{stroke:#bc8cff}
.a{fill:#2ea043}.w{fill:#f85149}.h{fill:#3d444d}}
";

pub(super) fn picture(scene: &Scene, runs: &[(Contender, Vec<Moment>)]) -> String {
    let height = TOP + ROW * runs.len() as i64 + 230;
    let summaries =
        runs.iter().map(|(contender, moments)| format!("{}: {}.", contender.name(), summary(scene, moments)));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">What each controller does with a step overload</title>\n\
         <desc id=\"desc\">{}</desc>\n<style>\n{STYLE}</style>\n<rect class=\"b\" width=\"100%\" height=\"100%\"/>\n",
        pixels(WIDTH),
        pixels(height),
        summaries.collect::<Vec<_>>().join(" "),
    );
    header(&mut svg, scene);
    for (index, (contender, moments)) in runs.iter().enumerate() {
        row(&mut svg, scene, *contender, moments, TOP + ROW * index as i64);
    }
    let axis = TOP + ROW * runs.len() as i64;
    for left in COLUMNS {
        for second in edges(scene) {
            text(&mut svg, "s m", left + x(scene, second * 10), axis, &format!("{second} s"));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn header(svg: &mut String, scene: &Scene) {
    let [first, second, third] = COLUMNS;
    let capacity = scene.server.capacity();
    text(svg, "t", first, 260, "A service gets three times the work it can do, and then half of it again");
    let server = format!(
        "It can do {capacity:.0} requests a second, {:.0} at once, in {} ms each. Clients give up after a second, and it goes on \
         with what they asked for.",
        scene.server.knee(),
        scene.server.unloaded_latency() / 1_000,
    );
    text(svg, "n", first, 480, &server);
    for (left, title) in [(first, "at once"), (second, "ms for an answer"), (third, "requests a second")] {
        text(svg, "t", left, 790, title);
    }
    key(svg, "d", third + 1_600, 750, "can be done");
    let area = |svg: &mut String, class: &str, left: i64, label: &str| {
        let _ = writeln!(svg, "<rect class=\"{class}\" x=\"{}\" y=\"92\" width=\"12\" height=\"10\"/>", pixels(left));
        text(svg, "n", left + 170, 1_015, label);
    };
    key(svg, "l", first, 970, "limit");
    area(svg, "f", first + 700, "in flight");
    key(svg, "d", first + 1_550, 970, "the best limit");
    key(svg, "c", second, 970, "mean");
    key(svg, "d", second + 750, 970, "without load");
    area(svg, "a", third, "answered");
    area(svg, "w", third + 930, "given up");
    area(svg, "h", third + 1_820, "shed");
}

/// Draws one entry of the legend.
fn key(svg: &mut String, class: &str, left: i64, top: i64, label: &str) {
    let _ = writeln!(svg, "<path class=\"{class}\" d=\"M{} {}h18\"/>", pixels(left), pixels(top));
    text(svg, "n", left + 230, top + 45, label);
}

fn row(svg: &mut String, scene: &Scene, contender: Contender, moments: &[Moment], top: i64) {
    text(svg, "t", COLUMNS[0], top + 270, contender.name());
    text(svg, "k", COLUMNS[0] + 1_000, top + 270, &summary(scene, moments));
    let points: Vec<Moment> = moments.chunks(POINT).map(Moment::merge).collect();
    let server = &scene.server;
    let unlimited = contender == Contender::Nothing;

    let at_once = Panel::new(scene, COLUMNS[0], top, if unlimited { 5_000 } else { 60 });
    at_once.frame(svg);
    at_once.area(svg, "f", &points, |point| (0, u64::from(point.in_flight)));
    at_once.level(svg, server.knee() as u64);
    if !unlimited {
        at_once.line(svg, "l", &points, |point| Some(u64::from(point.limit)));
    }
    at_once.ticks(svg, 1);

    let time = Panel::new(scene, COLUMNS[1], top, if unlimited { 1_000_000 } else { 40_000 });
    time.frame(svg);
    time.level(svg, server.unloaded_latency());
    time.line(svg, "c", &points, |point| point.took.checked_div(u64::from(point.answered)));
    time.ticks(svg, 1_000);

    let requests = Panel::new(scene, COLUMNS[2], top, 6_000);
    let a_second = |count: u32| u64::from(count) * 10 / POINT as u64;
    requests.frame(svg);
    requests.area(svg, "a", &points, |point| (0, a_second(point.answered)));
    requests.area(svg, "w", &points, |point| (a_second(point.answered), a_second(point.answered + point.wasted)));
    requests.area(svg, "h", &points, |point| {
        let below = point.answered + point.wasted;
        (a_second(below), a_second(below + point.shed))
    });
    requests.level(svg, server.capacity() as u64);
    requests.ticks(svg, 1);
}

/// Summarizes how the controller handled the overload.
fn summary(scene: &Scene, moments: &[Moment]) -> String {
    let [_, from, to, _] = edges(scene)[..] else { return String::new() };
    let during = &moments[from as usize * 10..to as usize * 10];
    let figures = Figures::from_moments(&scene.server, during);
    let wasted: u32 = moments.iter().map(|moment| moment.wasted).sum();
    let wasted = if wasted == 0 { "no".to_owned() } else { wasted.to_string() };
    format!(
        "in the overload {:.0}% of what it can do is answered, in {:.0} ms; {wasted} requests are given up",
        figures.answered * 100.0,
        figures.took * scene.server.unloaded_latency() as f64 / 1e3,
    )
}

/// Returns the times at which the load changes, in seconds, with the start and the end.
fn edges(scene: &Scene) -> Vec<u64> {
    let mut edges = vec![0];
    for (_, seconds) in &scene.load {
        edges.push(edges.last().unwrap_or(&0) + seconds);
    }
    edges
}

/// Returns the distance of a time from the left of its panel. Times are in tenths of a second.
fn x(scene: &Scene, tenths: u64) -> i64 {
    let length: u64 = scene.load.iter().map(|(_, seconds)| seconds * 10).sum();
    tenths as i64 * PANEL.0 / length as i64
}

/// A single chart.
struct Panel<'a> {
    scene: &'a Scene,
    left: i64,
    bottom: i64,
    most: u64,
}

impl<'a> Panel<'a> {
    fn new(scene: &'a Scene, left: i64, top: i64, most: u64) -> Self {
        Panel { scene, left, bottom: top + 370 + PANEL.1, most }
    }

    fn x(&self, point: usize) -> String {
        pixels(self.left + x(self.scene, (point * POINT) as u64))
    }

    /// Returns the height of a value. Values above the chart are drawn at its upper edge.
    fn y(&self, value: u64) -> i64 {
        self.bottom - (value.min(self.most) * PANEL.1 as u64 / self.most) as i64
    }

    fn frame(&self, svg: &mut String) {
        let (width, height) = (pixels(PANEL.0), pixels(PANEL.1));
        let (left, top) = (pixels(self.left), pixels(self.y(self.most)));
        let _ = writeln!(svg, "<rect class=\"p\" x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/>");
    }

    /// Draws the edges of the load, and the numbers at the side at multiples of `unit`.
    fn ticks(&self, svg: &mut String, unit: u64) {
        for second in edges(self.scene) {
            let at = pixels(self.left + x(self.scene, second * 10));
            let _ = writeln!(svg, "<path class=\"x\" d=\"M{at} {}v-{}\"/>", pixels(self.bottom), pixels(PANEL.1));
        }
        for value in [0, self.most / 2, self.most] {
            text(svg, "s e", self.left - 60, self.y(value) + 40, &(value / unit).to_string());
        }
    }

    fn level(&self, svg: &mut String, value: u64) {
        let _ = writeln!(
            svg,
            "<path class=\"d\" d=\"M{} {}h{}\"/>",
            pixels(self.left),
            pixels(self.y(value)),
            pixels(PANEL.0)
        );
    }

    /// Draws a line with a gap wherever there is no value.
    fn line(&self, svg: &mut String, class: &str, points: &[Moment], value: impl Fn(&Moment) -> Option<u64>) {
        let (mut path, mut drawing) = (String::new(), false);
        for (index, point) in points.iter().enumerate() {
            let value = value(point);
            if let Some(value) = value {
                let command = if drawing { 'L' } else { 'M' };
                let _ = write!(path, "{command}{} {}", self.x(index + 1), pixels(self.y(value)));
            }
            drawing = value.is_some();
        }
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// Fills the area between two values, in steps.
    fn area(&self, svg: &mut String, class: &str, points: &[Moment], values: impl Fn(&Moment) -> (u64, u64)) {
        let (mut above, mut below) = (String::new(), String::new());
        for (index, point) in points.iter().enumerate() {
            let (low, high) = values(point);
            let _ = write!(above, "V{}H{}", pixels(self.y(high)), self.x(index + 1));
            below = format!("V{}H{}{below}", pixels(self.y(low)), self.x(index));
        }
        let _ = writeln!(
            svg,
            "<path class=\"{class}\" d=\"M{} {}{above}{below}Z\"/>",
            pixels(self.left),
            pixels(self.bottom)
        );
    }
}
