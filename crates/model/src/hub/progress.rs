use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Receiver of progress reports while a model is fetched.
pub trait Progress {
    /// Starts a new transfer of `bytes` bytes.
    fn total(&mut self, bytes: u64);

    /// Reports that another `bytes` bytes of the transfer have arrived.
    fn advance(&mut self, bytes: u64);

    /// Reports the current activity in a few words, such as the name of a file.
    fn message(&mut self, text: &str);
}

/// Receiver that ignores all reports.
impl Progress for () {
    fn total(&mut self, _: u64) {}
    fn advance(&mut self, _: u64) {}
    fn message(&mut self, _: &str) {}
}

/// Progress bar on standard error. The bar is cleared when the value is dropped.
#[derive(Debug)]
pub struct TerminalProgress {
    bar: ProgressBar,
}

impl TerminalProgress {
    /// Creates a progress bar. The bar is drawn only if `visible` is true and standard error is a
    /// terminal.
    pub fn new(visible: bool) -> Self {
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_style(style("{spinner} {msg}"));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar }
    }
}

impl Progress for TerminalProgress {
    fn total(&mut self, bytes: u64) {
        self.bar.set_style(style("{msg} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} {eta}"));
        self.bar.reset();
        self.bar.set_length(bytes);
    }

    fn advance(&mut self, bytes: u64) {
        self.bar.inc(bytes);
    }

    fn message(&mut self, text: &str) {
        self.bar.set_message(text.to_owned());
    }
}

impl Drop for TerminalProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
