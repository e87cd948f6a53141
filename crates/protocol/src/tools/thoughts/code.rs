//! Markdown code: fenced blocks, and spans in backticks within a line.

use std::collections::HashMap;
use std::ops::Range;

/// Places of code in a text.
pub(super) struct Code {
    /// Runs of backticks: place, length, and the index of the run that closes a span in its line.
    runs: Vec<(usize, usize, Option<usize>)>,
    /// Place and character of each fence, and the end of its line.
    fences: Vec<(usize, char, usize)>,
    /// Fence directly after a thought.
    first: Option<(usize, char, usize)>,
    is_strict: bool,
    has_fences: bool,
    len: usize,
    /// Last result of [`Code::next`], which holds up to its start. `None` if it is not computed yet.
    cached: Option<Found>,
}

/// First code after a place. `None` if no code follows.
struct Found(Option<Range<usize>>);

impl Code {
    /// Finds the fences and backticks of `text`. If `is_strict` is true, a fence that is not closed
    /// extends to the end of the text. Otherwise no fence counts in this case.
    pub(super) fn of(text: &str, is_strict: bool) -> Self {
        let (mut runs, mut fences) = (Vec::new(), Vec::new());
        let mut at = 0;
        let has_code = text.contains('`') || text.contains("~~~");
        for line in text.split_inclusive('\n').filter(|_| has_code) {
            if let Some(indent) = fence(line) {
                let c = if line[indent..].starts_with('~') { '~' } else { '`' };
                fences.push((at + indent, c, at + line.len()));
            }
            let first = runs.len();
            runs_of(line, at, &mut runs);
            let mut next: HashMap<usize, usize> = HashMap::new();
            for index in (first..runs.len()).rev() {
                let length = runs[index].1;
                runs[index].2 = next.insert(length, index);
            }
            at += line.len();
        }
        Self { runs, fences, first: None, is_strict, has_fences: false, len: text.len(), cached: None }
    }

    /// Begins a segment of `text` at `at`. `is_thought` is true if the segment may be a thought, since
    /// a closing tag follows: a fence in a thought may lack its end.
    pub(super) fn begin(&mut self, text: &str, at: usize, is_thought: bool) {
        self.cached = None;
        let line = text[at..].split_inclusive('\n').next().unwrap_or_default();
        let is_inside = at > 0 && !text[..at].ends_with('\n');
        self.first = fence(line).filter(|_| is_inside).map(|indent| {
            let c = if line[indent..].starts_with('~') { '~' } else { '`' };
            (at + indent, c, at + line.len())
        });
        let after = self.fences.len() - self.fences.partition_point(|(fence, ..)| *fence < at);
        let is_closed = (after + usize::from(self.first.is_some())).is_multiple_of(2);
        self.has_fences = is_closed || (self.is_strict && !is_thought);
    }

    /// Returns the first code that begins at `from` or after it.
    pub(super) fn next(&mut self, from: usize) -> Option<Range<usize>> {
        if let Some(Found(found)) = &self.cached
            && found.as_ref().is_none_or(|range| range.start >= from)
        {
            return found.clone();
        }
        let found = self.find(from);
        self.cached = Some(Found(found.clone()));
        found
    }

    fn find(&self, from: usize) -> Option<Range<usize>> {
        let index = self.fences.partition_point(|(fence, ..)| *fence < from);
        let first = self.first.filter(|(fence, ..)| *fence >= from);
        let open = first.or_else(|| self.fences.get(index).copied()).filter(|_| self.has_fences);
        let block = open.map(|(start, c, line)| {
            let closing = self.fences[index..].iter().find(|(fence, other, _)| *fence >= line && *other == c);
            start..closing.map_or(self.len, |(_, _, end)| *end)
        });
        let limit = block.as_ref().map_or(self.len, |block| block.start);
        let start = self.runs.partition_point(|(run, ..)| *run < from);
        let mut spans = self.runs[start..].iter().take_while(|(run, ..)| *run < limit);
        let span = spans.find_map(|(run, _, close)| Some(*run..self.runs.get((*close)?)?.0));
        let span = span.map(|span| span.start..span.end + self.length_at(span.end));
        span.or(block)
    }

    fn length_at(&self, run: usize) -> usize {
        let index = self.runs.partition_point(|(place, ..)| *place < run);
        self.runs.get(index).map_or(0, |(_, length, _)| *length)
    }
}

/// Returns the indentation of a line that begins or ends a fenced block.
fn fence(line: &str) -> Option<usize> {
    let trimmed = line.trim_start();
    let ticks = trimmed.trim_start_matches('`');
    let is_fence = trimmed.starts_with("~~~") || (trimmed.len() - ticks.len() >= 3 && !ticks.contains('`'));
    is_fence.then(|| line.len() - trimmed.len())
}

/// Adds the runs of backticks in `line`, which begins at `at`.
fn runs_of(line: &str, at: usize, runs: &mut Vec<(usize, usize, Option<usize>)>) {
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let run = &rest[start..];
        let length = run.len() - run.trim_start_matches('`').len();
        runs.push((at + line.len() - run.len(), length, None));
        rest = &run[length..];
    }
}
