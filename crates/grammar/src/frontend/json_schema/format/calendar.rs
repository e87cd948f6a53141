//! Dates, times and durations (RFC 3339, section 5.6 and appendix A).

use super::Abnf;
use crate::regular::ExprId;

const MINUTES_OF_DAY: u32 = 24 * 60;

const FRACTION: &str = r"(?:\.\d+)?";

/// Returns the language of `full-date`, with the correct number of days for each month (section 5.7
/// and appendix C).
pub(super) fn date(rules: &mut Abnf<'_>) -> ExprId {
    let day = rules.pattern(
        r"\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))",
    );
    // Leap years are divisible by 4, and centuries also by 400.
    let leap_day =
        rules.pattern(r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29");
    rules.any([day, leap_day])
}

/// Returns the language of `full-time`. Second 60 is valid only if the time in UTC is 23:59:60
/// (section 5.7), and only at offsets of whole and half hours.
pub(super) fn time(rules: &mut Abnf<'_>) -> ExprId {
    let ordinary = rules.pattern(&format!(
        r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d{FRACTION}(?:[Zz]|[+\-](?:[01]\d|2[0-3]):[0-5]\d)"
    ));
    let leap = rules.pattern(&format!(":60{FRACTION}"));
    let mut times = vec![ordinary];
    for half_hour in 1..=48 {
        // The last minute of each half hour is the last minute of the day in UTC at some offset.
        let local = half_hour * 30 - 1;
        let (ahead, behind) = ((local + 1) % MINUTES_OF_DAY, MINUTES_OF_DAY - 1 - local);
        let mut offsets = vec![rules.text(&clock("+", ahead)), rules.text(&clock("-", behind))];
        if ahead == 0 {
            offsets.push(rules.pattern("[Zz]"));
        }
        let parts = [rules.text(&clock("", local)), leap, rules.any(offsets)];
        times.push(rules.all(parts));
    }
    rules.any(times)
}

/// Formats a number of minutes as `hh:mm`, after `sign`.
fn clock(sign: &str, minutes: u32) -> String {
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Returns the language of `date-time`.
pub(super) fn date_time(rules: &mut Abnf<'_>) -> ExprId {
    let parts = [date(rules), rules.pattern("[Tt]"), time(rules)];
    rules.all(parts)
}

/// Returns the language of `duration`. A unit may be followed only by the next smaller unit, and
/// weeks stand alone.
pub(super) fn duration(rules: &mut Abnf<'_>) -> ExprId {
    let time = r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)";
    let date = r"(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)";
    rules.pattern(&format!(r"P(?:{date}(?:{time})?|{time}|\d+W)"))
}
