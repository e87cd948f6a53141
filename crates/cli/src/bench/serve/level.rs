//! Measures a server with a fixed number of concurrent clients.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::client::{Client, Target};
use super::report::Measured;
use super::task::Task;

/// Number or duration of the requests to measure.
#[derive(Clone, Copy)]
pub(super) enum Amount {
    Requests(usize),
    /// Requests that start within this time; all of them are finished.
    Time(Duration),
}

/// Sends `count` requests without measuring.
///
/// # Errors
/// Returns an error if a request fails: a server that fails here is not worth measuring.
pub(super) async fn warm_up(target: &Target, task: &Task, count: usize) -> Result<()> {
    let mut client = Client::new(target.clone());
    for number in 0..count {
        client.ask(task.body(number)).await.context("a warm-up request failed")?;
    }
    Ok(())
}

/// State that all clients of one level share.
struct Level {
    task: Arc<Task>,
    amount: Amount,
    started: Instant,
    begun: usize,
    measured: Measured,
}

impl Level {
    /// Returns the body of the next request, or `None` if enough requests have started.
    fn next(&mut self) -> Option<String> {
        let more = match self.amount {
            Amount::Requests(count) => self.begun < count,
            Amount::Time(time) => self.started.elapsed() < time,
        };
        self.begun += 1;
        more.then(|| self.task.body(self.begun))
    }
}

pub(super) async fn run(target: &Target, task: &Arc<Task>, clients: usize, amount: Amount) -> Measured {
    let level = Rc::new(RefCell::new(Level {
        task: Arc::clone(task),
        amount,
        started: Instant::now(),
        begun: 0,
        measured: Measured::new(clients, task.has_schema()),
    }));
    let local = tokio::task::LocalSet::new();
    for _ in 0..clients {
        local.spawn_local(work(Client::new(target.clone()), Rc::clone(&level)));
    }
    local.await;
    let mut level = level.borrow_mut();
    let elapsed = level.started.elapsed();
    let mut measured = std::mem::take(&mut level.measured);
    measured.end(elapsed);
    measured
}

async fn work(mut client: Client, level: Rc<RefCell<Level>>) {
    loop {
        let Some(body) = level.borrow_mut().next() else { return };
        let answer = client.ask(body).await;
        let mut level = level.borrow_mut();
        let task = Arc::clone(&level.task);
        level.measured.add(answer, |text| task.accepts(text));
    }
}
