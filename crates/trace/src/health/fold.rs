//! Aggregation of scanned counts into a report.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use rusqlite::Connection;

use super::scan::{Buckets, NameId, Part, Scan};
use super::{Bucket, Count, Filters, HEALTH_VERSION, Health, HealthOptions, Named, Tally, Window, recommend};
use crate::{Event, Timestamp};

/// Counts by name and bucket. The name `None` stands for all records.
type Tallies = HashMap<(Option<NameId>, u32), Tally>;

pub(super) fn fold(
    connection: &Connection,
    scan: &Scan,
    options: &HealthOptions,
) -> Result<Health, rusqlite::Error> {
    let (tallies, skips) = tallies(scan);
    let parts = Parts { scan, whole: whole(&tallies) };
    let time = |time: Timestamp| rfc3339(connection, time);
    let from = scan.window.map(|(from, _)| time(from)).transpose()?;
    let until = scan.window.map(|(_, until)| time(until)).transpose()?;
    let mut health = Health {
        version: HEALTH_VERSION,
        generated_at: time(options.now)?,
        window: Window { since_hours: options.since.map(|since| since.as_secs_f64() / 3600.0), from, until },
        filters: Filters {
            pipeline: options.pipeline.clone(),
            step: options.step.clone(),
            agent: options.agent.clone(),
            model: options.model.clone(),
        },
        traces: scan.traces,
        overall: parts.whole.get(&None).cloned().unwrap_or_default(),
        pipelines: parts.of(Part::Pipeline),
        steps: parts.of(Part::Step),
        agents: parts.of(Part::Agent),
        models: parts.of(Part::Model),
        transforms: most(scan.transforms.clone()),
        soe_skips: most(skips),
        trends: Vec::new(),
        recommendations: Vec::new(),
    };
    if let Some(window) = scan.window.filter(|_| options.buckets > 0) {
        let buckets = Buckets::new(window, options.buckets);
        health.trends = trends(connection, scan, tallies, buckets)?;
    }
    health.recommendations = recommend::recommend(&health);
    Ok(health)
}

/// Returns the counts by name and bucket. Also returns, by model, how often a constraint was
/// skipped.
fn tallies(scan: &Scan) -> (Tallies, HashMap<String, u64>) {
    let (mut tallies, mut skips) = (Tallies::new(), HashMap::new());
    for (&(name, bucket), &runs) in &scan.runs {
        tallies.entry((name, bucket)).or_default().runs = runs;
    }
    for (&(name, bucket), &failed) in &scan.failed {
        tallies.entry((name, bucket)).or_default().failed_runs = failed;
    }
    for (&(name, bucket), &cost) in &scan.costs {
        tallies.entry((name, bucket)).or_default().cost = cost;
    }
    for (cell, &count) in &scan.cells {
        let Some(subject) = scan.subjects.get(&cell.subject) else { continue };
        let stage = cell.stage.map(|stage| scan.stages.all[stage as usize].as_str());
        for name in subject.names.iter().copied().map(Some).chain([None]) {
            tallies.entry((name, cell.bucket)).or_default().add(
                (cell.event, cell.is_recovered),
                stage,
                count,
            );
        }
        if cell.event == Event::SoeSkipped {
            *skips.entry(subject.model.clone()).or_default() += count;
        }
    }
    (tallies, skips)
}

/// Returns the counts by name, summed over all buckets.
fn whole(tallies: &Tallies) -> HashMap<Option<NameId>, Tally> {
    let mut whole: HashMap<_, Tally> = HashMap::new();
    for ((name, _), tally) in tallies {
        whole.entry(*name).or_default().merge(tally);
    }
    whole
}

struct Parts<'a> {
    scan: &'a Scan,
    whole: HashMap<Option<NameId>, Tally>,
}

impl Parts<'_> {
    /// Returns the names of a dimension with their counts, without names that have no counts.
    ///
    /// Names with more coercions per 100 runs come first, then names with more coercions.
    /// Otherwise, names are in alphabetical order.
    fn of(&self, part: Part) -> Vec<Named> {
        let names = (0..).zip(&self.scan.names.all).filter(|(_, (of, _))| *of == part);
        let mut named: Vec<_> = names
            .filter_map(|(id, (_, name))| {
                Some(Named { name: name.clone(), tally: self.whole.get(&Some(id))?.clone() })
            })
            .collect();
        named.sort_by(|one, other| {
            let rate = |named: &Named| named.tally.per_100_runs().unwrap_or_default();
            let by_rate = rate(other).total_cmp(&rate(one));
            let successes = |named: &Named| Reverse(named.tally.coercions.successes);
            by_rate.then(successes(one).cmp(&successes(other))).then_with(|| one.name.cmp(&other.name))
        });
        named
    }
}

fn trends(
    connection: &Connection,
    scan: &Scan,
    tallies: Tallies,
    buckets: Buckets,
) -> Result<Vec<Bucket>, rusqlite::Error> {
    let to = if buckets.are_of_seconds() { rfc3339 } else { rfc3339_exact };
    let mut trends = Vec::new();
    for (from, until) in buckets.bounds() {
        trends.push(Bucket {
            from: to(connection, from)?,
            until: to(connection, until)?,
            tally: Tally::default(),
            steps: BTreeMap::new(),
            models: BTreeMap::new(),
        });
    }
    for ((name, at), tally) in tallies {
        let bucket = &mut trends[at as usize];
        let Some(name) = name else {
            bucket.tally = tally;
            continue;
        };
        match &scan.names.all[name as usize] {
            (Part::Step, name) => drop(bucket.steps.insert(name.clone(), tally)),
            (Part::Model, name) => drop(bucket.models.insert(name.clone(), tally)),
            (Part::Pipeline | Part::Agent, _) => {}
        }
    }
    Ok(trends)
}

/// Sorts names by count, highest first. Names with equal counts are in alphabetical order.
fn most(counts: HashMap<String, u64>) -> Vec<Count> {
    let mut counts: Vec<_> = counts.into_iter().map(|(name, count)| Count { name, count }).collect();
    counts.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.name.cmp(&other.name)));
    counts
}

/// Formats a time as in RFC 3339, rounded down to whole seconds. `SQLite` converts the time to a
/// date.
fn rfc3339(connection: &Connection, time: Timestamp) -> Result<String, rusqlite::Error> {
    let seconds = time.0.div_euclid(1_000_000);
    connection.query_row(
        "SELECT coalesce(strftime('%Y-%m-%dT%H:%M:%SZ', ?, 'unixepoch'), '')",
        [seconds],
        |row| row.get(0),
    )
}

/// Formats a time as in RFC 3339. The microseconds are included unless they are zero.
fn rfc3339_exact(connection: &Connection, time: Timestamp) -> Result<String, rusqlite::Error> {
    let text = rfc3339(connection, time)?;
    Ok(match (time.0.rem_euclid(1_000_000), text.strip_suffix('Z')) {
        (part @ 1.., Some(second)) => format!("{second}.{part:06}Z"),
        _ => text,
    })
}
