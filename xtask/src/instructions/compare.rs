//! Comparison of the current instruction counts with the recorded ones.

use std::fmt::{self, Write};

use super::counts::ToolVersions;
use super::{COUNTS_FILE, TARGET_FOLDER, callgrind};
use crate::cargo::TaskError;

/// The permitted difference between two counts of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tolerance {
    /// At most this many percent.
    Percent(u64),
    /// The counts are not compared.
    Any,
}

impl Tolerance {
    /// Returns the tolerance between two sets of tools. With equal tools, only the code can have changed. Other tools
    /// change all paths a little and few of them much, so a large difference still deserves a look. Counts of different
    /// processors cannot be compared.
    pub(super) fn between(kept: &ToolVersions, now: &ToolVersions) -> Self {
        match kept.target == now.target {
            true if kept == now => Tolerance::Percent(10),
            true => Tolerance::Percent(30),
            false => Tolerance::Any,
        }
    }

    /// Explains the tolerance if it is not the usual one.
    pub(super) fn explanation(self, kept: &ToolVersions, now: &ToolVersions) -> Option<String> {
        let advice = "Bless code that is otherwise unchanged: cargo xtask instructions --bless";
        match self {
            Tolerance::Any => Some(format!(
                "{COUNTS_FILE} was counted on {}, and this is {}: nothing is compared.",
                kept.target, now.target
            )),
            Tolerance::Percent(percent) if kept != now => Some(format!(
                "{COUNTS_FILE} was counted with {kept}; here are {now}.\nSo a path may cost up to {percent}% more. {advice}"
            )),
            Tolerance::Percent(_) => None,
        }
    }
}

/// The costs of all paths, before and now.
pub(super) struct Comparison<'a> {
    paths: Vec<PathCosts<'a>>,
    tolerance: Tolerance,
}

/// The costs of one path, which may be missing before or now.
struct PathCosts<'a> {
    name: &'a str,
    before: Option<u64>,
    now: Option<u64>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(before: &'a [(String, u64)], now: &'a [(String, u64)], tolerance: Tolerance) -> Self {
        let count =
            |counts: &[(String, u64)], name: &str| counts.iter().find(|(known, _)| known == name).map(|(_, n)| *n);
        let current = now.iter().map(|(name, now)| PathCosts { name, before: count(before, name), now: Some(*now) });
        let removed = before.iter().filter(|(name, _)| count(now, name).is_none());
        let removed = removed.map(|(name, before)| PathCosts { name, before: Some(*before), now: None });
        Comparison { paths: current.chain(removed).collect(), tolerance }
    }

    /// Returns an error if a path costs more than it may, or is missing on one side.
    pub(super) fn check(&self) -> Result<(), TaskError> {
        let Tolerance::Percent(percent) = self.tolerance else { return Ok(()) };
        let mut message = String::new();
        let dearer: Vec<_> = self.paths.iter().filter(|path| path.is_dearer(percent)).collect();
        if let Some(worst) = dearer.iter().max_by_key(|path| path.per_mille()) {
            let _ = writeln!(message, "more than {percent}% more instructions than before:");
            for PathCosts { name, before, now } in &dearer {
                let (before, now) = (before.unwrap_or_default(), now.unwrap_or_default());
                let _ =
                    writeln!(message, "  {name}: {before} a call before, {now} now, {}", format_change(before, now));
            }
            let profile = callgrind::profile_path(TARGET_FOLDER, worst.name);
            let _ = writeln!(
                message,
                "See where they go, here and in the files beside it: callgrind_annotate {}",
                profile.display()
            );
        }
        for PathCosts { name, before, now } in &self.paths {
            match (before, now) {
                (None, _) => drop(writeln!(message, "{name} is not in {COUNTS_FILE}.")),
                (_, None) => drop(writeln!(message, "{name} is in {COUNTS_FILE}, and there is no such path any more.")),
                _ => {}
            }
        }
        if message.is_empty() {
            return Ok(());
        }
        Err(TaskError(format!(
            "{message}If that is meant: cargo xtask instructions --bless writes {COUNTS_FILE} anew; commit it."
        )))
    }
}

impl PathCosts<'_> {
    /// Returns the current cost in thousandths of the earlier cost.
    fn per_mille(&self) -> u64 {
        self.now.unwrap_or_default() * 1_000 / self.before.unwrap_or_default().max(1)
    }

    fn is_dearer(&self, percent: u64) -> bool {
        matches!((self.before, self.now), (Some(before), Some(now)) if now * 100 > before * (100 + percent))
    }

    fn is_cheaper(&self, percent: u64) -> bool {
        matches!((self.before, self.now), (Some(before), Some(now)) if now * 100 < before * (100 - percent))
    }
}

/// Formats the table.
impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
        writeln!(f, "{:<32} {:>8} {:>8}", "instructions of one call", "before", "now")?;
        for path @ PathCosts { name, before, now } in &self.paths {
            let changed = match (before, now, self.tolerance) {
                (Some(before), Some(now), Tolerance::Percent(_)) if before != now => format_change(*before, *now),
                _ => String::new(),
            };
            let remark = match self.tolerance {
                Tolerance::Percent(percent) if path.is_dearer(percent) => "  <- too much",
                Tolerance::Percent(percent) if path.is_cheaper(percent) => {
                    "  <- keep it: cargo xtask instructions --bless"
                }
                _ => "",
            };
            let line = format!("{name:<32} {:>8} {:>8}  {changed}{remark}", count(*before), count(*now));
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Formats the change in percent.
fn format_change(before: u64, now: u64) -> String {
    let percent = before.abs_diff(now) as f64 * 100.0 / before as f64;
    format!("{percent:.1}% {}", if now > before { "more" } else { "less" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Tolerance = Tolerance::Percent(10);

    fn counts(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn check(before: &[(&str, u64)], now: &[(&str, u64)], tolerance: Tolerance) -> Result<(), String> {
        let (before, now) = (counts(before), counts(now));
        Comparison::new(&before, &now, tolerance).check().map_err(|TaskError(message)| message)
    }

    fn tools(target: &str, rustc: &str) -> ToolVersions {
        ToolVersions { target: target.into(), rustc: rustc.into(), libc: "glibc 2.36".into() }
    }

    #[test]
    fn increase_above_ten_percent_fails() {
        assert_eq!(check(&[("a", 200)], &[("a", 220)], TEN), Ok(()));
        assert!(check(&[("a", 200)], &[("a", 221)], TEN).is_err());
    }

    #[test]
    fn failure_names_path_figures_change_and_next_step() {
        let before = [("memory/allowed", 200), ("memory/denied", 200), ("other", 7)];
        let now = [("memory/allowed", 230), ("memory/denied", 250), ("other", 7)];
        assert_eq!(
            check(&before, &now, TEN).unwrap_err(),
            "more than 10% more instructions than before:\n  \
             memory/allowed: 200 a call before, 230 now, 15.0% more\n  \
             memory/denied: 200 a call before, 250 now, 25.0% more\n\
             See where they go, here and in the files beside it: \
             callgrind_annotate target/instructions/memory-denied.callgrind\n\
             If that is meant: cargo xtask instructions --bless writes benches/instructions/counts.txt anew; commit it."
        );
    }

    #[test]
    fn cheaper_path_passes_and_is_marked() {
        let (before, now) = (counts(&[("a", 200), ("b", 200)]), counts(&[("a", 179), ("b", 180)]));
        let comparison = Comparison::new(&before, &now, TEN);
        assert!(comparison.check().is_ok());
        let table = comparison.to_string();
        let [_, a, b] = table.lines().collect::<Vec<_>>()[..] else { panic!("{table}") };
        assert!(a.ends_with("200      179  10.5% less  <- keep it: cargo xtask instructions --bless"), "{a}");
        assert!(b.ends_with("200      180  10.0% less"), "{b}");
    }

    #[test]
    fn path_on_one_side_only_fails() {
        let message = check(&[("old", 5)], &[("new", 5)], TEN).unwrap_err();
        assert!(message.contains("new is not in benches/instructions/counts.txt."), "{message}");
        assert!(message.contains("old is in benches/instructions/counts.txt, and there is no such path"), "{message}");
    }

    #[test]
    fn other_compiler_or_library_widens_the_tolerance_with_an_explanation() {
        let (kept, now) = (tools("x86_64", "1.95.0"), tools("x86_64", "1.96.0"));
        assert_eq!(Tolerance::between(&kept, &kept), TEN);
        assert_eq!(TEN.explanation(&kept, &kept), None);
        let tolerance = Tolerance::between(&kept, &now);
        assert_eq!(tolerance, Tolerance::Percent(30));
        let explanation = tolerance.explanation(&kept, &now).unwrap();
        assert!(
            explanation.contains("rustc 1.95.0") && explanation.contains("rustc 1.96.0") && explanation.contains("30%"),
            "{explanation}"
        );
        assert_eq!(check(&[("a", 200)], &[("a", 260)], tolerance), Ok(()));
        assert!(check(&[("a", 200)], &[("a", 261)], tolerance).is_err());
        let libc = ToolVersions { libc: "glibc 2.41".into(), ..kept.clone() };
        assert_eq!(Tolerance::between(&kept, &libc), Tolerance::Percent(30));
    }

    #[test]
    fn other_target_disables_the_comparison_with_an_explanation() {
        let (kept, now) = (tools("x86_64", "1.95.0"), tools("aarch64", "1.95.0"));
        let tolerance = Tolerance::between(&kept, &now);
        assert_eq!(check(&[("a", 200)], &[("a", 2_000)], tolerance), Ok(()));
        let explanation = tolerance.explanation(&kept, &now).unwrap();
        assert!(
            explanation.contains("x86_64")
                && explanation.contains("aarch64")
                && explanation.contains("nothing is compared"),
            "{explanation}"
        );
    }
}
