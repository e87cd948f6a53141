//! Memory use of the process.

use std::fmt;

/// Sizes in KiB, as Linux reports them in `/proc/self/status`.
pub struct Memory {
    resident: u64,
    anonymous: u64,
    file: u64,
    peak: u64,
}

impl Memory {
    /// Returns the current sizes, or `None` on systems that do not report them.
    pub fn now() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let size = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.trim().strip_suffix(" kB")?.parse().ok()
        };
        Some(Self {
            resident: size("VmRSS")?,
            anonymous: size("RssAnon")?,
            file: size("RssFile")?,
            peak: size("VmHWM")?,
        })
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |kib: u64| kib as f64 / 1024.0;
        let (resident, peak) = (mib(self.resident), mib(self.peak));
        let (anonymous, file) = (mib(self.anonymous), mib(self.file));
        write!(
            f,
            "{resident:.0} MiB resident ({anonymous:.0} anonymous, {file:.0} of files), {peak:.0} at most so far"
        )
    }
}
