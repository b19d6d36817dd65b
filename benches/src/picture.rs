//! Bar and line charts of the results, written to `docs/pictures` as SVG.

use std::fmt::Write;

/// The times of several peers for one task.
pub(crate) struct Bars {
    pub(crate) group: String,
    pub(crate) values: Vec<f64>,
}

/// The time of one task as its input grows.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(u64, f64)>,
}

const WIDTH: f64 = 960.0;
const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1f2328}
.t{font-weight:600;font-size:15px}.n{fill:#59636e;font-size:12px}.e{text-anchor:end}.m{text-anchor:middle}.b{fill:#fff}
.g{stroke:#d8dde3;stroke-width:1}.c0{fill:#0969da;stroke:#0969da}.c1{fill:#8250df;stroke:#8250df}.c2{fill:#bf8700;stroke:#bf8700}
.c3{fill:#818b98;stroke:#818b98}.c4{fill:#4ac26b;stroke:#4ac26b}.c5{fill:#1a7f37;stroke:#1a7f37}.c6{fill:#cf222e;stroke:#cf222e}.l{fill:none;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#9198a1}.b{fill:#0d1117}.g{stroke:#3d444d}
.c0{fill:#58a6ff;stroke:#58a6ff}.c1{fill:#bc8cff;stroke:#bc8cff}.c2{fill:#d29922;stroke:#d29922}.c3{fill:#656c76;stroke:#656c76}
.c4{fill:#2ea043;stroke:#2ea043}.c5{fill:#7ee787;stroke:#7ee787}.c6{fill:#ff7b72;stroke:#ff7b72}}
";

/// Draws the bars of each group side by side. Shorter is better.
pub(crate) fn bars<'a>(name: &str, title: &str, peers: &[&str], groups: impl Iterator<Item = &'a Bars>) {
    let groups: Vec<_> = groups.collect();
    let most = groups.iter().flat_map(|group| &group.values).copied().fold(1.0, f64::max);
    let (left, top, bar) = (280.0, 90.0, 14.0);
    let tall = peers.len() as f64 * bar + 16.0;
    let mut svg = begin(title, top + tall * groups.len() as f64 + 10.0);
    legend(&mut svg, peers);
    for (row, group) in groups.iter().enumerate() {
        let y = top + row as f64 * tall;
        let middle = y + tall / 2.0 - 4.0;
        let _ = writeln!(svg, "<text class=\"e\" x=\"{:.0}\" y=\"{middle:.0}\">{}</text>", left - 12.0, group.group);
        for (index, value) in group.values.iter().enumerate() {
            let (y, width) = (y + index as f64 * bar, value / most * (WIDTH - left - 90.0));
            let _ = writeln!(
                svg,
                "<rect class=\"c{index}\" x=\"{left:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"{:.0}\"/>\
                 <text class=\"n\" x=\"{:.0}\" y=\"{:.0}\">{value:.0}</text>",
                bar - 3.0,
                left + width + 6.0,
                y + bar - 4.0
            );
        }
    }
    end(name, svg);
}

/// Draws lines over a logarithmic scale.
pub(crate) fn lines(name: &str, title: &str, lines: &[Line]) {
    let values = || lines.iter().flat_map(|line| &line.points);
    let powers = values().map(|(x, _)| x.ilog10()).max().unwrap_or(1).max(1);
    let most = values().map(|(_, y)| *y).fold(1.0, f64::max);
    let (left, top, width, height) = (70.0, 90.0, WIDTH - 110.0, 320.0);
    let x = |value: u64| left + (value as f64).log10() / f64::from(powers) * width;
    let y = |value: f64| top + height - value / most * height;
    let mut svg = begin(title, top + height + 50.0);
    legend(&mut svg, &lines.iter().map(|line| line.name).collect::<Vec<_>>());
    for part in 0..=4 {
        let value = most * f64::from(part) / 4.0;
        let _ = writeln!(
            svg,
            "<line class=\"g\" x1=\"{left:.0}\" x2=\"{:.0}\" y1=\"{1:.1}\" y2=\"{1:.1}\"/>\
             <text class=\"n e\" x=\"{2:.0}\" y=\"{3:.1}\">{value:.0} ns</text>",
            left + width,
            y(value),
            left - 8.0,
            y(value) + 4.0
        );
    }
    for power in 0..=powers {
        let (at, value) = (x(10_u64.pow(power)), 10_u64.pow(power));
        let label = ["1", "10", "100", "1 k", "10 k", "100 k", "1 M", "10 M", "100 M"].get(power as usize).copied();
        let label = label.map_or_else(|| value.to_string(), str::to_owned);
        let _ = writeln!(svg, "<text class=\"n m\" x=\"{at:.0}\" y=\"{:.0}\">{label}</text>", top + height + 22.0);
    }
    for (index, line) in lines.iter().enumerate() {
        let points: Vec<String> =
            line.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        let _ = writeln!(svg, "<polyline class=\"c{index} l\" style=\"fill:none\" points=\"{}\"/>", points.join(" "));
        for (at, value) in &line.points {
            let _ = writeln!(svg, "<circle class=\"c{index}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>", x(*at), y(*value));
        }
    }
    end(name, svg);
}

fn begin(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-labelledby=\"title\">\n\
         <title id=\"title\">{title}</title>\n<style>\n{STYLE}</style>\n<rect class=\"b\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"t\" x=\"20\" y=\"30\">{title}</text>\n"
    )
}

fn legend(svg: &mut String, names: &[&str]) {
    let (mut x, mut y) = (20.0, 48.0);
    for (index, name) in names.iter().enumerate() {
        let width = 40.0 + 7.0 * name.len() as f64;
        if x + width > WIDTH {
            (x, y) = (20.0, y + 20.0);
        }
        let _ = writeln!(
            svg,
            "<rect class=\"c{index}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"12\" height=\"12\"/>\
             <text class=\"n\" x=\"{:.0}\" y=\"{:.0}\">{name}</text>",
            x + 18.0,
            y + 10.0
        );
        x += width;
    }
}

fn end(name: &str, mut svg: String) {
    svg.push_str("</svg>\n");
    let path = format!("{}/../docs/pictures/{name}.svg", env!("CARGO_MANIFEST_DIR"));
    std::fs::write(&path, svg).unwrap_or_else(|error| panic!("{path}: {error}"));
}
