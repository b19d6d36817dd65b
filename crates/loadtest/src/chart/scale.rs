//! Linear and logarithmic scales with ticks at round numbers.

/// A linear scale from 0 to a maximum.
pub(in crate::chart) struct Linear {
    most: f64,
    from: f64,
    to: f64,
}

impl Linear {
    /// Draws 0 at `from` and `most` at `to`.
    pub(in crate::chart) fn new(most: f64, from: f64, to: f64) -> Self {
        Linear { most, from, to }
    }

    /// Extends the scale to the next round number.
    pub(in crate::chart) fn rounded(self) -> Self {
        let step = step(self.most);
        Linear { most: (self.most / step - 1e-9).ceil() * step, ..self }
    }

    pub(in crate::chart) fn at(&self, number: f64) -> f64 {
        self.from + (self.to - self.from) * number / self.most
    }

    /// Returns the positions and labels of round numbers.
    pub(in crate::chart) fn ticks(&self) -> Vec<(f64, String)> {
        let step = step(self.most);
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let count = (self.most / step + 1e-9).floor() as u32;
        let tick = |number: u32| f64::from(number) * step;
        (0..=count).map(|number| (self.at(tick(number)), group_digits(&format!("{:.digits$}", tick(number))))).collect()
    }
}

/// Returns 1, 2 or 5 times a power of ten that divides the scale into 4 to 10 steps.
fn step(most: f64) -> f64 {
    let ten = 10_f64.powf((most / 4.0).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|one| one * ten).find(|step| most / step >= 4.0).unwrap_or(ten)
}

/// Groups digits in thousands.
fn group_digits(digits: &str) -> String {
    let (whole, fraction) = digits.split_once('.').map_or((digits, ""), |(whole, _)| (whole, &digits[whole.len()..]));
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

/// A logarithmic scale of latencies in microseconds.
pub(in crate::chart) struct Logarithmic {
    least: u64,
    most: u64,
    from: f64,
    to: f64,
}

impl Logarithmic {
    /// Reaches from the next round number below `least` to the next above `most`.
    pub(in crate::chart) fn new(least: u64, most: u64, from: f64, to: f64) -> Self {
        let (least, most) = (least.max(1), most.max(1));
        let below = rounds().take_while(|round| *round <= least).last().unwrap_or(1);
        let above = rounds().find(|round| *round >= most && *round > below).unwrap_or(u64::MAX);
        Logarithmic { least: below, most: above, from, to }
    }

    pub(in crate::chart) fn at(&self, micros: u64) -> f64 {
        let part = |number: u64| (number.max(1) as f64 / self.least as f64).ln();
        self.from + (self.to - self.from) * part(micros) / part(self.most)
    }

    /// Returns the positions and labels of round numbers: powers of ten only on a long scale.
    pub(in crate::chart) fn ticks(&self) -> Vec<(f64, String)> {
        let tens_only = self.most / self.least > 10_000;
        let shown = rounds().filter(|round| *round >= self.least && *round <= self.most);
        shown
            .filter(|round| !tens_only || is_power_of_ten(*round))
            .map(|round| (self.at(round), format_latency(round)))
            .collect()
    }
}

/// 1, 2, 5, 10, 20, 50, ...
fn rounds() -> impl Iterator<Item = u64> {
    (0..12).flat_map(|zeros| [1, 2, 5].map(|one| one * 10_u64.pow(zeros)))
}

fn is_power_of_ten(round: u64) -> bool {
    round == 10_u64.pow(round.ilog10())
}

fn format_latency(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} \u{b5}s"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{} s", micros / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[(f64, String)]) -> Vec<&str> {
        ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn linear_ticks_are_round_numbers() {
        let cases: [(f64, &[&str]); 5] = [
            (10.0, &["0", "2", "4", "6", "8", "10"]),
            (0.1, &["0.00", "0.02", "0.04", "0.06", "0.08", "0.10"]),
            (3_600.0, &["0", "500", "1,000", "1,500", "2,000", "2,500", "3,000", "3,500"]),
            (1.0, &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
            (4_000_000.0, &["0", "1,000,000", "2,000,000", "3,000,000", "4,000,000"]),
        ];
        for (most, expected) in cases {
            assert_eq!(labels(&Linear::new(most, 0.0, 1.0).ticks()), expected, "{most}");
        }
        let scale = Linear::new(12_345.0, 100.0, 0.0).rounded();
        assert_eq!(labels(&scale.ticks()).last(), Some(&"14,000"));
        assert_eq!((scale.at(0.0), scale.at(7_000.0), scale.at(14_000.0)), (100.0, 50.0, 0.0));
        // A round number stays as it is.
        assert_eq!(Linear::new(500.0, 0.0, 1.0).rounded().at(500.0), 1.0);
    }

    #[test]
    fn logarithmic_decades_have_equal_length() {
        let scale = Logarithmic::new(130, 9_000, 100.0, 0.0);
        let expected = ["100 \u{b5}s", "200 \u{b5}s", "500 \u{b5}s", "1 ms", "2 ms", "5 ms", "10 ms"];
        assert_eq!(labels(&scale.ticks()), expected);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(near(scale.at(100), 100.0) && near(scale.at(1_000), 50.0) && near(scale.at(10_000), 0.0));
        let wide = Logarithmic::new(1, 30_000_000, 0.0, 1.0).ticks();
        assert_eq!(labels(&wide)[..2], ["1 \u{b5}s", "10 \u{b5}s"]);
        // Equal latencies, and none at all, still give a usable scale.
        for (least, most) in [(100, 100), (0, 0), (77, 77)] {
            let scale = Logarithmic::new(least, most, 100.0, 0.0);
            assert!(scale.ticks().len() >= 2 && scale.at(most).is_finite(), "{least}");
        }
    }
}
