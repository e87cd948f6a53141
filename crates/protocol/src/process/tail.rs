//! Bounded reading of process output.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

/// Maximum number of bytes of standard error that are kept. The last bytes are kept, since they
/// usually contain the reason for a failure.
const KEPT: usize = 4096;

/// Maximum time to wait for the rest of standard error when a process ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most recent standard error output of a process.
#[derive(Clone, Default)]
pub(crate) struct Tail {
    kept: Arc<Mutex<Kept>>,
    /// Number of streams being read.
    followed: watch::Sender<usize>,
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    /// True if earlier output was dropped.
    is_cut: bool,
}

impl Tail {
    /// Reads a stream to its end in a task of its own.
    pub(crate) fn follow(&self, source: impl AsyncRead + Unpin + Send + 'static) {
        let tail = self.clone();
        tail.followed.send_modify(|many| *many += 1);
        tokio::spawn(async move {
            tail.read(source).await;
            tail.followed.send_modify(|many| *many -= 1);
        });
    }

    /// Returns the output after waiting up to [`PATIENCE`] for the streams to end.
    pub(crate) async fn last_words(&self) -> String {
        let mut followed = self.followed.subscribe();
        // Another process, such as a grandchild, may keep the stream open.
        let _ = tokio::time::timeout(PATIENCE, followed.wait_for(|many| *many == 0)).await;
        self.text()
    }

    /// Reads a stream to its end.
    pub(crate) async fn read(&self, mut source: impl AsyncRead + Unpin) {
        let mut piece = [0; 1024];
        while let Ok(count @ 1..) = source.read(&mut piece).await {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.bytes.extend_from_slice(&piece[..count]);
            let surplus = kept.bytes.len().saturating_sub(KEPT);
            kept.is_cut |= surplus > 0;
            kept.bytes.drain(..surplus);
        }
    }

    /// Returns the output so far. If earlier output was dropped, the partial first line is skipped,
    /// unless it is the only line.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_inside = |byte: &u8| *byte & 0xC0 == 0x80;
        let begin =
            if kept.is_cut { kept.bytes.iter().take_while(|byte| is_inside(byte)).count() } else { 0 };
        let text = String::from_utf8_lossy(&kept.bytes[begin..]);
        let text = text.trim_end();
        let whole = text.split_once('\n').filter(|_| kept.is_cut).map_or(text, |(_, whole)| whole);
        whole.trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keeps_the_end_of_the_output() {
        let tail = Tail::default();
        let text = "x".repeat(5000) + "the end\n";
        tail.read(text.as_bytes()).await;
        assert!(tail.text().ends_with("xthe end"));
        assert_eq!(tail.text().len(), KEPT - 1);
    }

    #[tokio::test]
    async fn waits_for_the_end_of_the_output() {
        let tail = Tail::default();
        assert_eq!(tail.last_words().await, "");
        let (mut from, to) = tokio::io::duplex(8);
        tail.follow(to);
        let write = async move {
            tokio::task::yield_now().await;
            tokio::io::AsyncWriteExt::write_all(&mut from, b"the last words\n").await.expect("written");
        };
        assert_eq!(tokio::join!(tail.last_words(), write).0, "the last words");
    }

    #[tokio::test]
    async fn starts_a_cut_at_a_line_or_character() {
        let tail = Tail::default();
        tail.read(format!("{}\nlast\nlines\n", "x".repeat(5000)).as_bytes()).await;
        assert_eq!(tail.text(), "last\nlines");
        let tail = Tail::default();
        tail.read(format!("{}x", "ä".repeat(5000)).as_bytes()).await;
        assert_eq!(tail.text(), format!("{}x", "ä".repeat(KEPT / 2 - 1)));
        let tail = Tail::default();
        tail.read(&b"first\nlast\n"[..]).await;
        assert_eq!(tail.text(), "first\nlast");
    }
}
