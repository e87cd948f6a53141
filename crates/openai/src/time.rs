use std::time::Duration;

const SECONDS_PER_DAY: u64 = 86_400;
/// Days in 400 years, after which the calendar repeats.
const DAYS_PER_ERA: u64 = 146_097;
/// Days from March 1 of the year 0 to January 1, 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

/// Writes a time since 1970 in UTC, with nanoseconds, such as `2024-02-29T12:00:00.000000000Z`.
pub fn timestamp(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (year, month, day) = date(seconds / SECONDS_PER_DAY);
    let second = seconds % SECONDS_PER_DAY;
    let [hour, minute, second] = [second / 3600, second / 60 % 60, second % 60];
    let nanos = since_1970.subsec_nanos();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// Returns the year, month and day of a day since 1970.
///
/// Years are counted from March, so that a leap day is the last day of a year.
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_BEFORE_1970;
    let day = days % DAYS_PER_ERA;
    // A leap day every 4 years, except every 100, but every 400.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    // From March on, five months have 153 days.
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let from_january = if month < 10 { month + 3 } else { month - 9 };
    let year = days / DAYS_PER_ERA * 400 + year + if from_january <= 2 { 1 } else { 0 };
    (year, from_january, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (1_709_208_000, "2024-02-29T12:00:00"),
            (1_735_689_599, "2024-12-31T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            assert_eq!(timestamp(Duration::from_secs(seconds)), format!("{expected}.000000000Z"));
        }
        assert_eq!(timestamp(Duration::new(1, 5)), "1970-01-01T00:00:01.000000005Z");
    }

    #[test]
    fn days_follow_one_another() {
        let mut last = date(0);
        for days in 1..200_000 {
            let (year, month, day) = date(days);
            let next = [(last.0, last.1, last.2 + 1), (last.0, last.1 + 1, 1), (last.0 + 1, 1, 1)];
            assert!(next.contains(&(year, month, day)), "{days}");
            assert!((1..=12).contains(&month) && (1..=31).contains(&day));
            last = (year, month, day);
        }
    }
}
