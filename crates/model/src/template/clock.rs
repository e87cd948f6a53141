//! Date and time for the function `strftime_now` of templates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};

const DAY: u64 = 24 * 60 * 60;

/// Supported directives. chrono, C and Python write them alike.
const DIRECTIVES: &str = "%aAbBdeFHIjmMpSTyY";

/// Returns the default time of templates: 1 January 2025, 00:00 UTC. A fixed time makes prompts
/// reproducible.
pub(super) fn default_now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(20_089 * DAY)
}

/// Formats `time` in UTC as C's `strftime` does in the C locale. Times before 1970 become the start
/// of 1970.
///
/// # Errors
/// Returns the first unsupported directive in `format`, such as `%Q`.
pub(super) fn strftime(time: SystemTime, format: &str) -> Result<String, String> {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let moment = DateTime::from_timestamp(seconds as i64, 0).unwrap_or_default();
    let mut out = String::new();
    let mut rest = format.chars();
    while let Some(letter) = rest.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let directive = rest.next().ok_or("%")?;
        if directive == '-' {
            let directive = rest.next().ok_or("%-")?;
            let padded = field(moment, directive).ok_or_else(|| format!("%-{directive}"))?;
            let bare = padded.trim_start_matches(['0', ' ']);
            out.push_str(if bare.is_empty() { "0" } else { bare });
        } else {
            out.push_str(&field(moment, directive).ok_or_else(|| format!("%{directive}"))?);
        }
    }
    Ok(out)
}

fn field(moment: DateTime<Utc>, directive: char) -> Option<String> {
    DIRECTIVES.contains(directive).then(|| moment.format(&format!("%{directive}")).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, format: &str) -> String {
        strftime(UNIX_EPOCH + Duration::from_secs(seconds), format).unwrap()
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(at(0, "%A %d %B %Y %T"), "Thursday 01 January 1970 00:00:00");
        assert_eq!(at(951_827_696, "%a %-d %b %y, %I:%M %p (%j)"), "Tue 29 Feb 00, 12:34 PM (060)");
        assert_eq!(at(1_735_603_199, "%F %H:%M:%S %-m/%e"), "2024-12-30 23:59:59 12/30");
        assert_eq!(strftime(default_now(), "%d %b %Y %-H").unwrap(), "01 Jan 2025 0");
    }

    #[test]
    fn an_unknown_directive_is_named() {
        assert_eq!(strftime(default_now(), "%Q").unwrap_err(), "%Q");
        assert_eq!(strftime(default_now(), "%-").unwrap_err(), "%-");
    }
}
