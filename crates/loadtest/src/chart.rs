//! The chart of a load test: throughput and latency over time, as SVG.

mod scale;

use std::fmt::Write as _;

use crate::report::{Report, format_millis};
use crate::tally::Interval;
use scale::{Linear, Logarithmic};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 604.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 24.0;
/// The top and bottom of the two panels.
const THROUGHPUT: (f64, f64) = (104.0, 304.0);
const LATENCY: (f64, f64) = (364.0, 564.0);

const ALLOWED: &str = "#2a9d6f";
const DENIED: &str = "#e0a030";
const ERRORS: &str = "#c0392b";
/// The median, the 99th percentile and the maximum. The dashes distinguish them without colours.
const LATENCIES: [(&str, &str, &str); 3] =
    [("p50", "#1f6fb4", "none"), ("p99", "#d1603d", "6 3"), ("max", "#6b4c9a", "2 3")];

/// Draws the chart.
pub(crate) fn draw(report: &Report) -> String {
    let timeline = &report.timeline;
    let intervals = &timeline.intervals;
    let seconds = timeline.sending.as_secs_f64().max(1e-6);
    let time = Linear::new(seconds, LEFT, RIGHT);
    let mut svg = String::new();
    head(&mut svg, report);

    let interval_length = timeline.interval_length.as_secs_f64();
    // The last interval may be cut short.
    let times: Vec<f64> = (0..=intervals.len()).map(|index| (index as f64 * interval_length).min(seconds)).collect();
    let length = |index: usize| (times[index + 1] - times[index]).max(1e-6);
    let rates: Vec<[f64; 3]> = intervals
        .iter()
        .enumerate()
        .map(|(index, interval)| {
            [interval.allowed, interval.denied, interval.failed].map(|count| count as f64 / length(index))
        })
        .collect();
    throughput(&mut svg, &time, &times, &rates);
    latency(&mut svg, &time, &times, intervals);
    svg.push_str("</svg>\n");
    svg
}

fn head(svg: &mut String, report: &Report) {
    let urls: Vec<&str> = report.urls.iter().map(|of| of.url.as_str()).collect();
    let servers = if urls.len() <= 3 { urls.join(" ") } else { format!("{} and {} others", urls[0], urls.len() - 1) };
    let title = format!("tidegate bench {servers}");
    let mut figures = format!("{} requests, {:.0} a second", report.all.requests, report.all.per_second);
    if let Some(latency) = &report.all.latency_us {
        let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(format_millis);
        let _ = write!(figures, "; latency p50 {p50} ms, p99 {p99} ms, max {max} ms");
    }
    let (title, description, figures) = (escape(&title), escape(&report.timeline.description), escape(&figures));
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#222\" role=\"img\">\n\
         <title>{title}</title>\n<desc>{figures}</desc>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"24\" y=\"30\" font-size=\"17\" font-weight=\"600\">{title}</text>\n\
         <text x=\"24\" y=\"50\" fill=\"#555\">{description}</text>\n\
         <text x=\"24\" y=\"68\" fill=\"#555\">{figures}</text>\n"
    );
}

/// Draws requests a second, in layers: allowed, denied, errors.
fn throughput(svg: &mut String, time: &Linear, times: &[f64], rates: &[[f64; 3]]) {
    let (top, bottom) = THROUGHPUT;
    let most = rates.iter().map(|layers| layers.iter().sum()).fold(1.0, f64::max);
    let scale = Linear::new(most, bottom, top).rounded();
    frame(svg, "requests a second", THROUGHPUT, &scale.ticks(), time);
    let layers = [("allowed", ALLOWED), ("denied", DENIED), ("errors", ERRORS)];
    let mut shown = Vec::new();
    for (layer, (name, colour)) in layers.into_iter().enumerate() {
        if rates.iter().all(|layers| layers[layer] == 0.0) {
            continue;
        }
        shown.push((name, colour, None));
        let at = |layers: &[f64; 3], up_to: usize| scale.at(layers[..up_to].iter().sum());
        let mut path = String::new();
        for (index, layers) in rates.iter().enumerate() {
            let first =
                if index == 0 { format!("M{:.1} {:.1}", time.at(0.0), at(layers, layer + 1)) } else { String::new() };
            let _ = write!(path, "{first}V{:.1}H{:.1}", at(layers, layer + 1), time.at(times[index + 1]));
        }
        for (index, layers) in rates.iter().enumerate().rev() {
            let _ = write!(path, "V{:.1}H{:.1}", at(layers, layer), time.at(times[index]));
        }
        let _ = writeln!(svg, "<path class=\"{name}\" fill=\"{colour}\" d=\"{path}Z\"/>");
    }
    legend(svg, top - 14.0, &shown);
}

/// Draws latencies on a logarithmic scale, which shows a stall and an ordinary response side by side.
fn latency(svg: &mut String, time: &Linear, times: &[f64], intervals: &[Interval]) {
    let (top, bottom) = LATENCY;
    let all = || intervals.iter().filter_map(|interval| interval.latency).flatten();
    let scale = Logarithmic::new(all().min().unwrap_or(100), all().max().unwrap_or(1_000), bottom, top);
    frame(svg, "latency", LATENCY, &scale.ticks(), time);
    for (which, (name, colour, dash)) in LATENCIES.into_iter().enumerate() {
        // An interval without a decision is a gap.
        for run in intervals
            .iter()
            .zip(times.windows(2))
            .collect::<Vec<_>>()
            .chunk_by(|a, b| a.0.latency.is_some() == b.0.latency.is_some())
        {
            let place = |(interval, ends): &(&Interval, &[f64])| {
                let micros = interval.latency?[which];
                Some(format!("{:.1},{:.1}", time.at((ends[0] + ends[1]) / 2.0), scale.at(micros)))
            };
            let places: Vec<String> = run.iter().filter_map(place).collect();
            match places[..] {
                [] => {}
                [ref one] => {
                    let (x, y) = one.split_once(',').unwrap_or((one, one));
                    let _ = writeln!(svg, "<circle class=\"{name}\" cx=\"{x}\" cy=\"{y}\" r=\"2\" fill=\"{colour}\"/>");
                }
                _ => {
                    let places = places.join(" ");
                    let _ = writeln!(
                        svg,
                        "<polyline class=\"{name}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" \
                         stroke-dasharray=\"{dash}\" stroke-linejoin=\"round\" points=\"{places}\"/>"
                    );
                }
            }
        }
    }
    legend(svg, top - 14.0, &LATENCIES.map(|(name, colour, dash)| (name, colour, Some(dash))));
}

/// Draws a panel: its name, its grid lines with numbers, and time below it.
fn frame(svg: &mut String, name: &str, (top, bottom): (f64, f64), ticks: &[(f64, String)], time: &Linear) {
    let _ = writeln!(svg, "<text x=\"24\" y=\"{}\" font-weight=\"600\">{name}</text>", top - 14.0);
    for (y, label) in ticks {
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" \
             fill=\"#555\">{label}</text>",
            LEFT - 8.0,
            y + 4.5
        );
    }
    for (x, label) in time.ticks() {
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {bottom}v5\" stroke=\"#888\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" \
             fill=\"#555\">{label} s</text>",
            bottom + 20.0
        );
    }
    let _ = writeln!(svg, "<path d=\"M{LEFT} {top}V{bottom}H{RIGHT}\" fill=\"none\" stroke=\"#888\"/>");
}

/// Draws names with their colours, to the right above a panel; names with dashes are lines.
fn legend(svg: &mut String, y: f64, names: &[(&str, &str, Option<&str>)]) {
    for (index, (name, colour, dash)) in names.iter().enumerate() {
        let x = RIGHT - 92.0 * (names.len() - index) as f64;
        let mark = match dash {
            None => format!("<rect x=\"{x}\" y=\"{}\" width=\"22\" height=\"10\" fill=\"{colour}\"/>", y - 9.0),
            Some(dash) => format!(
                "<path d=\"M{x} {}h22\" stroke=\"{colour}\" stroke-width=\"1.8\" stroke-dasharray=\"{dash}\"/>",
                y - 4.0
            ),
        };
        let _ = writeln!(svg, "{mark}<text x=\"{}\" y=\"{y}\">{name}</text>", x + 28.0);
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
