//! Comparison of two engines over the same cases.

use std::fmt;

use formwork_benches::Distribution;
use formwork_benches::masks::{Outcome, Status, Summary};
use serde::Serialize;

/// The results of both engines, and their times over the schemas that both pass.
#[derive(Serialize)]
pub struct Comparison<'a> {
    ours: Side<'a>,
    theirs: Side<'a>,
    /// Number of schemas that both engines pass.
    both_pass: usize,
    /// Schemas on which the two engines differ, with both statuses.
    differences: Vec<Difference<'a>>,
}

#[derive(Serialize)]
struct Side<'a> {
    engine: String,
    schemas: &'a [Outcome],
    summary: Summary,
    /// Times over the schemas that both engines pass, in microseconds.
    mask_us: Distribution,
    ttfm_us: Distribution,
    start_us: Distribution,
}

#[derive(Serialize)]
struct Difference<'a> {
    id: &'a str,
    ours: Status,
    theirs: Status,
}

impl<'a> Comparison<'a> {
    /// Compares the outcomes of two engines, which are in the same order of cases.
    pub fn of(ours: (String, &'a [Outcome]), theirs: (String, &'a [Outcome])) -> Self {
        let pairs = || ours.1.iter().zip(theirs.1);
        let both: Vec<bool> =
            pairs().map(|(our, their)| our.status == Status::Pass && their.status == Status::Pass).collect();
        let differences = pairs()
            .filter(|(our, their)| our.status != their.status)
            .map(|(our, their)| Difference { id: &our.id, ours: our.status, theirs: their.status })
            .collect();
        Self {
            both_pass: both.iter().filter(|&&both| both).count(),
            differences,
            ours: Side::of(ours.0, ours.1, &both),
            theirs: Side::of(theirs.0, theirs.1, &both),
        }
    }
}

impl<'a> Side<'a> {
    fn of(engine: String, outcomes: &'a [Outcome], both: &[bool]) -> Self {
        let passed = || outcomes.iter().zip(both).filter(|(_, both)| **both).map(|(outcome, _)| outcome);
        Self {
            engine,
            schemas: outcomes,
            summary: Summary::of(outcomes),
            mask_us: Distribution::of(passed().flat_map(|outcome| outcome.mask_us.iter().copied())),
            ttfm_us: Distribution::of(passed().filter_map(|outcome| outcome.ttfm_us)),
            start_us: Distribution::of(passed().flat_map(|outcome| outcome.start_us.iter().copied())),
        }
    }
}

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ours, theirs) = (&self.ours, &self.theirs);
        for side in [ours, theirs] {
            writeln!(f, "== {}\n\n{}", side.engine, side.summary)?;
        }
        writeln!(f, "== the {} schemas that both pass\n", self.both_pass)?;
        writeln!(
            f,
            "masks: {} ({}), {} ({})",
            ours.mask_us.count, ours.engine, theirs.mask_us.count, theirs.engine
        )?;
        writeln!(f, "{}", Distribution::header())?;
        let rows = [
            ("mask, µs", &ours.mask_us, &theirs.mask_us),
            ("first mask, µs", &ours.ttfm_us, &theirs.ttfm_us),
            ("start, µs", &ours.start_us, &theirs.start_us),
        ];
        for (label, our, their) in rows {
            writeln!(f, "{label}")?;
            writeln!(f, "{}", our.row(&format!("  {}", ours.engine)))?;
            writeln!(f, "{}", their.row(&format!("  {}", theirs.engine)))?;
            writeln!(f, "{}", our.ratios("  ratio", their))?;
        }
        Ok(())
    }
}
