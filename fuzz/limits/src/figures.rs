//! Processor time and memory of a process, from Linux's `/proc`.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Returns the processor time of this thread, or the wall-clock time where `/proc` is missing.
pub(crate) fn spent() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = statistics.split(' ').next().and_then(|spent| spent.parse().ok());
    spent.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// Returns the processor time of another process, rounded to 10 ms.
pub(crate) fn spent_by(process: u32) -> Option<Duration> {
    let statistics = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The process name in parentheses may contain spaces.
    let fields: Vec<&str> = statistics.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

/// Resets the peak and returns the memory in use, in MiB.
pub(crate) fn reset_peak() -> f64 {
    // If the file cannot be written, the peak covers the whole process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    status_mib("VmRSS:")
}

/// Returns the highest memory in use since [`reset_peak`], in MiB.
pub(crate) fn peak_mib() -> f64 {
    status_mib("VmHWM:")
}

fn status_mib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
