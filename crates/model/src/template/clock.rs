//! Date and time for the function `strftime_now` of templates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const DAY: u64 = 24 * 60 * 60;

/// Returns the default time of templates: 1 January 2025, 00:00 UTC. A fixed time makes prompts
/// reproducible.
pub(super) fn default_now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(20_089 * DAY)
}

/// Date and time in UTC.
struct Moment {
    year: u64,
    /// Month, starting at 0 for January.
    month: usize,
    /// Day of the month, starting at 1.
    day: u64,
    /// Day of the year, starting at 1.
    ordinal: u64,
    /// Day of the week, from 0 for Monday.
    weekday: usize,
    /// Second of the day, starting at 0.
    second: u64,
}

impl Moment {
    /// Converts a system time. A time before 1970 becomes the start of 1970.
    fn new(time: SystemTime) -> Self {
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut days = seconds / DAY;
        let weekday = ((days + 3) % 7) as usize;
        let mut year = 1970;
        while days >= days_in_year(year) {
            days -= days_in_year(year);
            year += 1;
        }
        let ordinal = days + 1;
        let mut month = 0;
        while days >= days_in_month(year, month) {
            days -= days_in_month(year, month);
            month += 1;
        }
        Self { year, month, day: days + 1, ordinal, weekday, second: seconds % DAY }
    }

    fn hour(&self) -> u64 {
        self.second / 3600
    }

    fn minute(&self) -> u64 {
        self.second / 60 % 60
    }

    /// Returns the hour on a 12-hour clock, from 1 to 12.
    fn face_hour(&self) -> u64 {
        (self.hour() + 11) % 12 + 1
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in_month(year: u64, month: usize) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// Formats `time` in UTC, as C's `strftime` does in the C locale.
///
/// # Errors
/// Returns the first unsupported directive in `format`, such as `%Q`.
pub(super) fn strftime(time: SystemTime, format: &str) -> Result<String, String> {
    let moment = Moment::new(time);
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
            let padded = field(&moment, directive).ok_or_else(|| format!("%-{directive}"))?;
            let bare = padded.trim_start_matches(['0', ' ']);
            out.push_str(if bare.is_empty() { "0" } else { bare });
        } else {
            out.push_str(&field(&moment, directive).ok_or_else(|| format!("%{directive}"))?);
        }
    }
    Ok(out)
}

fn field(moment: &Moment, directive: char) -> Option<String> {
    let Moment { year, month, day, ordinal, weekday, second } = *moment;
    let (hour, minute, second) = (moment.hour(), moment.minute(), second % 60);
    Some(match directive {
        '%' => "%".to_owned(),
        'a' => WEEKDAYS[weekday][..3].to_owned(),
        'A' => WEEKDAYS[weekday].to_owned(),
        'b' => MONTHS[month][..3].to_owned(),
        'B' => MONTHS[month].to_owned(),
        'd' => format!("{day:02}"),
        'e' => format!("{day:2}"),
        'F' => format!("{year}-{:02}-{day:02}", month + 1),
        'H' => format!("{hour:02}"),
        'I' => format!("{:02}", moment.face_hour()),
        'j' => format!("{ordinal:03}"),
        'm' => format!("{:02}", month + 1),
        'M' => format!("{minute:02}"),
        'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        'S' => format!("{second:02}"),
        'T' => format!("{hour:02}:{minute:02}:{second:02}"),
        'y' => format!("{:02}", year % 100),
        'Y' => year.to_string(),
        _ => return None,
    })
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
