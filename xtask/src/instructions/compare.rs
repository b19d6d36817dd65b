//! What paths cost now beside what they cost before.

use std::fmt::{self, Write};

use super::counts::Tools;
use super::{FOLDER, KEPT, callgrind};
use crate::cargo::Failed;

/// How far apart two counts of a path may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tolerance {
    /// Up to so many percent.
    Percent(u64),
    /// They are not compared.
    Any,
}

impl Tolerance {
    /// With the same tools only the code can have changed. Others change all paths a little and few of them much: a path that
    /// is far from what it was is still worth a look. On another processor nothing is alike.
    pub(super) fn between(kept: &Tools, now: &Tools) -> Self {
        match kept.target == now.target {
            true if kept == now => Tolerance::Percent(10),
            true => Tolerance::Percent(30),
            false => Tolerance::Any,
        }
    }

    /// What to say when it is not the usual one.
    pub(super) fn why(self, kept: &Tools, now: &Tools) -> Option<String> {
        let advice = "Bless code that is otherwise unchanged: cargo xtask instructions --bless";
        match self {
            Tolerance::Any => {
                Some(format!("{KEPT} was counted on {}, and this is {}: nothing is compared.", kept.target, now.target))
            }
            Tolerance::Percent(percent) if kept != now => Some(format!(
                "{KEPT} was counted with {kept}; here are {now}.\nSo a path may cost up to {percent}% more. {advice}"
            )),
            Tolerance::Percent(_) => None,
        }
    }
}

/// All paths, before and now.
pub(super) struct Comparison<'a> {
    paths: Vec<Compared<'a>>,
    tolerance: Tolerance,
}

/// A path that is known from before, now, or both.
struct Compared<'a> {
    name: &'a str,
    before: Option<u64>,
    now: Option<u64>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(before: &'a [(String, u64)], now: &'a [(String, u64)], tolerance: Tolerance) -> Self {
        let count =
            |counts: &[(String, u64)], name: &str| counts.iter().find(|(known, _)| known == name).map(|(_, n)| *n);
        let there = now.iter().map(|(name, now)| Compared { name, before: count(before, name), now: Some(*now) });
        let gone = before.iter().filter(|(name, _)| count(now, name).is_none());
        let gone = gone.map(|(name, before)| Compared { name, before: Some(*before), now: None });
        Comparison { paths: there.chain(gone).collect(), tolerance }
    }

    /// Fails when a path costs more than it may, or is not known on both sides.
    pub(super) fn verdict(&self) -> Result<(), Failed> {
        let Tolerance::Percent(percent) = self.tolerance else { return Ok(()) };
        let mut said = String::new();
        let dearer: Vec<_> = self.paths.iter().filter(|path| path.is_dearer(percent)).collect();
        if let Some(worst) = dearer.iter().max_by_key(|path| path.per_mille()) {
            let _ = writeln!(said, "more than {percent}% more instructions than before:");
            for Compared { name, before, now } in &dearer {
                let (before, now) = (before.unwrap_or_default(), now.unwrap_or_default());
                let _ = writeln!(said, "  {name}: {before} a call before, {now} now, {}", change(before, now));
            }
            let seen = callgrind::file(FOLDER, worst.name);
            let _ = writeln!(
                said,
                "See where they go, here and in the files beside it: callgrind_annotate {}",
                seen.display()
            );
        }
        for Compared { name, before, now } in &self.paths {
            match (before, now) {
                (None, _) => drop(writeln!(said, "{name} is not in {KEPT}.")),
                (_, None) => drop(writeln!(said, "{name} is in {KEPT}, and there is no such path any more.")),
                _ => {}
            }
        }
        if said.is_empty() {
            return Ok(());
        }
        Err(Failed(format!("{said}If that is meant: cargo xtask instructions --bless writes {KEPT} anew; commit it.")))
    }
}

impl Compared<'_> {
    /// What it costs now, in thousandths of what it cost before.
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

/// The table.
impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
        writeln!(f, "{:<32} {:>8} {:>8}", "instructions of one call", "before", "now")?;
        for path @ Compared { name, before, now } in &self.paths {
            let changed = match (before, now, self.tolerance) {
                (Some(before), Some(now), Tolerance::Percent(_)) if before != now => change(*before, *now),
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

/// The change in words.
fn change(before: u64, now: u64) -> String {
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

    fn verdict(before: &[(&str, u64)], now: &[(&str, u64)], tolerance: Tolerance) -> Result<(), String> {
        let (before, now) = (counts(before), counts(now));
        Comparison::new(&before, &now, tolerance).verdict().map_err(|Failed(said)| said)
    }

    fn tools(target: &str, rustc: &str) -> Tools {
        Tools { target: target.into(), rustc: rustc.into(), libc: "glibc 2.36".into() }
    }

    #[test]
    fn ten_percent_more_is_enough_and_more_is_too_much() {
        assert_eq!(verdict(&[("a", 200)], &[("a", 220)], TEN), Ok(()));
        assert!(verdict(&[("a", 200)], &[("a", 221)], TEN).is_err());
    }

    #[test]
    fn a_failure_names_the_path_both_figures_the_change_and_what_to_do() {
        let before = [("memory/allowed", 200), ("memory/denied", 200), ("other", 7)];
        let now = [("memory/allowed", 230), ("memory/denied", 250), ("other", 7)];
        assert_eq!(
            verdict(&before, &now, TEN).unwrap_err(),
            "more than 10% more instructions than before:\n  \
             memory/allowed: 200 a call before, 230 now, 15.0% more\n  \
             memory/denied: 200 a call before, 250 now, 25.0% more\n\
             See where they go, here and in the files beside it: \
             callgrind_annotate target/instructions/memory-denied.callgrind\n\
             If that is meant: cargo xtask instructions --bless writes benches/instructions/counts.txt anew; commit it."
        );
    }

    #[test]
    fn what_has_become_cheaper_is_no_failure_and_is_pointed_out() {
        let (before, now) = (counts(&[("a", 200), ("b", 200)]), counts(&[("a", 179), ("b", 180)]));
        let comparison = Comparison::new(&before, &now, TEN);
        assert!(comparison.verdict().is_ok());
        let table = comparison.to_string();
        let [_, a, b] = table.lines().collect::<Vec<_>>()[..] else { panic!("{table}") };
        assert!(a.ends_with("200      179  10.5% less  <- keep it: cargo xtask instructions --bless"), "{a}");
        assert!(b.ends_with("200      180  10.0% less"), "{b}");
    }

    #[test]
    fn a_path_that_only_one_side_knows_is_a_failure() {
        let said = verdict(&[("old", 5)], &[("new", 5)], TEN).unwrap_err();
        assert!(said.contains("new is not in benches/instructions/counts.txt."), "{said}");
        assert!(said.contains("old is in benches/instructions/counts.txt, and there is no such path"), "{said}");
    }

    #[test]
    fn another_compiler_or_library_widens_the_tolerance_and_says_so() {
        let (kept, now) = (tools("x86_64", "1.95.0"), tools("x86_64", "1.96.0"));
        assert_eq!(Tolerance::between(&kept, &kept), TEN);
        assert_eq!(TEN.why(&kept, &kept), None);
        let tolerance = Tolerance::between(&kept, &now);
        assert_eq!(tolerance, Tolerance::Percent(30));
        let why = tolerance.why(&kept, &now).unwrap();
        assert!(why.contains("rustc 1.95.0") && why.contains("rustc 1.96.0") && why.contains("30%"), "{why}");
        assert_eq!(verdict(&[("a", 200)], &[("a", 260)], tolerance), Ok(()));
        assert!(verdict(&[("a", 200)], &[("a", 261)], tolerance).is_err());
        let libc = Tools { libc: "glibc 2.41".into(), ..kept.clone() };
        assert_eq!(Tolerance::between(&kept, &libc), Tolerance::Percent(30));
    }

    #[test]
    fn on_another_target_nothing_is_compared_and_it_says_so() {
        let (kept, now) = (tools("x86_64", "1.95.0"), tools("aarch64", "1.95.0"));
        let tolerance = Tolerance::between(&kept, &now);
        assert_eq!(verdict(&[("a", 200)], &[("a", 2_000)], tolerance), Ok(()));
        let why = tolerance.why(&kept, &now).unwrap();
        assert!(why.contains("x86_64") && why.contains("aarch64") && why.contains("nothing is compared"), "{why}");
    }
}
