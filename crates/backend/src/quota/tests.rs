use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{BackendError, Body, Category, ChatBackend, Interruption, ScriptedBackend};

fn body(value: serde_json::Value) -> Body {
    serde_json::from_value(value).expect("an object")
}

fn used(tokens: u64) -> serde_json::Value {
    let mut answer = ScriptedBackend::says("Hi");
    answer["usage"] = json!({ "prompt_tokens": 1, "completion_tokens": tokens - 1, "total_tokens": tokens });
    answer
}

#[test]
fn reserved_amounts_are_exclusive() {
    let quota = Quota::unlimited().with_tokens(10).with_time(Duration::from_secs(1));
    let first = quota.reserve(Cost { tokens: 6, time: Duration::from_millis(800) }).expect("enough");
    let tokens = quota.reserve(Cost::tokens(5)).expect_err("too much");
    assert_eq!(tokens, Exhausted { resource: Resource::Tokens, asked: 5, left: 4 });
    let time = quota.reserve(Cost { tokens: 1, time: Duration::from_millis(201) }).expect_err("too much");
    assert_eq!(time, Exhausted { resource: Resource::Milliseconds, asked: 201, left: 200 });
    assert_eq!(quota.left(), Left { tokens: Some(4), time: Some(Duration::from_millis(200)) });
    first.reconcile(Cost { tokens: 2, time: Duration::from_millis(100) });
    assert_eq!(quota.left(), Left { tokens: Some(8), time: Some(Duration::from_millis(900)) });
    assert_eq!(quota.used(), Cost { tokens: 2, time: Duration::from_millis(100) });
}

#[test]
fn books_costs_beyond_the_reservation() {
    let quota = Quota::unlimited().with_tokens(10);
    quota.reserve(Cost::tokens(5)).expect("enough").reconcile(Cost::tokens(50));
    assert_eq!((quota.used().tokens, quota.left().tokens), (50, Some(0)));
    assert!(quota.reserve(Cost::tokens(1)).is_err());
    assert!(quota.reserve(Cost::default()).is_ok(), "nothing costs nothing");
}

#[test]
fn without_limits_counts_all_and_refuses_nothing() {
    let quota = Quota::unlimited();
    quota.reserve(Cost::tokens(u64::MAX)).expect("enough").reconcile(Cost::tokens(7));
    assert_eq!((quota.used().tokens, quota.left()), (7, Left { tokens: None, time: None }));
}

proptest! {
    /// Any sequence of reservations, reconciliations and drops keeps the books balanced and within
    /// the limit.
    #[test]
    fn used_and_reserved_amounts_balance(steps in prop::collection::vec((0_u64..40, prop::option::of(0_u64..60)), 0..40)) {
        let quota = Quota::unlimited().with_tokens(100);
        let (mut used, mut held) = (0, Vec::new());
        for (number, (asked, reconciled)) in steps.into_iter().enumerate() {
            let set_aside = held.iter().map(|held: &Reservation| held.cost().tokens).sum::<u64>();
            let left = 100_u64.saturating_sub(used + set_aside);
            prop_assert_eq!(quota.left().tokens, Some(left));
            match quota.reserve(Cost::tokens(asked)) {
                Ok(reservation) => {
                    prop_assert!(asked <= left);
                    held.push(reservation);
                }
                Err(exhausted) => prop_assert_eq!((exhausted.asked, exhausted.left, asked > left), (asked, left, true)),
            }
            if let (Some(spent), false) = (reconciled, held.is_empty()) {
                held.swap_remove(number % held.len()).reconcile(Cost::tokens(spent));
                used += spent;
            }
        }
        drop(held);
        prop_assert_eq!(quota.left().tokens, Some(100_u64.saturating_sub(used)));
        prop_assert_eq!(quota.used().tokens, used);
    }
}

#[tokio::test]
async fn reserves_and_reconciles_requests() {
    let script = Arc::new(ScriptedBackend::new([Ok(used(30)), Ok(ScriptedBackend::says("Hi"))]));
    let quota = Quota::unlimited().with_tokens(200);
    let backend = Metered::new(script.clone(), quota.clone());
    let asked =
        body(json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 100 }));
    backend.chat(&asked).await.expect("an answer");
    assert_eq!(quota.used().tokens, 30, "what the backend tells");
    backend.chat(&asked).await.expect("an answer");
    let reserved = 100 + (r#"[{"role":"user","content":"Hi"}]"#.len() as u64).div_ceil(3);
    assert_eq!(quota.used().tokens, 30 + reserved, "what was reserved");
    let error = backend.chat(&asked).await.expect_err("exhausted");
    assert_eq!(error.interruption(), Some(Interruption::BudgetExhausted));
    assert_eq!((error.category(), script.asked().len()), (Category::Exhausted, 2), "nothing was sent");
}

#[tokio::test]
async fn releases_the_reservation_of_a_failed_request() {
    let script = Arc::new(ScriptedBackend::new([]));
    let quota = Quota::unlimited().with_tokens(2000);
    let backend = Metered::new(script, quota.clone());
    backend.chat(&body(json!({ "messages": [] }))).await.expect_err("no answer");
    assert!(backend.stream(&body(json!({ "messages": [] }))).await.is_err());
    assert_eq!(quota.left().tokens, Some(2000));
}

#[tokio::test]
async fn streams_cost_what_was_received() {
    let script = Arc::new(ScriptedBackend::new([Ok(used(30)), Ok(used(30))]));
    let quota = Quota::unlimited();
    let backend = Metered::new(script, quota.clone());
    let asked = body(json!({ "messages": [] }));
    let chunks = backend.stream(&asked).await.expect("a stream");
    drop(chunks);
    assert_eq!(quota.used().tokens, 1, "the prompt alone");
    let chunks = backend.stream(&asked).await.expect("a stream");
    chunks.for_each(|_| std::future::ready(())).await;
    assert_eq!(quota.used().tokens, 31, "what the backend tells");
}

/// Fails every request with this error after 1 second.
struct Fails(BackendError);

impl ChatBackend for Fails {
    fn name(&self) -> &'static str {
        "fails"
    }

    fn chat<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, Result<crate::Answer, BackendError>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(self.0.clone())
        })
    }

    fn stream<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, Result<crate::Chunks, BackendError>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(self.0.clone())
        })
    }

    fn capabilities<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<crate::Capabilities, BackendError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn books_failed_requests_by_their_progress() {
    let asked = body(json!({ "messages": [], "max_tokens": 100 }));
    let second = Duration::from_secs(1);
    for (error, tokens) in [
        (BackendError::from_status(400, "no"), 0),
        (BackendError::from_status(429, "later"), 0),
        (BackendError::from_status(503, "later"), 0),
        (BackendError::from(Interruption::Cancelled), 0),
        (BackendError::from_status(504, "too late"), 101),
        (BackendError::timeout(second), 101),
    ] {
        let quota = Quota::unlimited().with_tokens(10_000);
        let backend = Metered::new(Arc::new(Fails(error.clone())), quota.clone());
        assert_eq!(backend.chat(&asked).await.err(), Some(error.clone()));
        assert_eq!(quota.used(), Cost { tokens, time: second }, "{error}");
        assert_eq!(quota.left().tokens, Some(10_000 - tokens), "{error}: what was not used is given back");
        assert_eq!(backend.stream(&asked).await.err(), Some(error.clone()));
        assert_eq!(quota.used(), Cost { tokens: 2 * tokens, time: 2 * second }, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_request_costs_its_reservation() {
    let quota = Quota::unlimited();
    let backend = Metered::new(Arc::new(Silent), quota.clone());
    let asked = body(json!({ "messages": [], "max_tokens": 100 }));
    let gives_up = tokio::time::timeout(Duration::from_secs(2), backend.chat(&asked));
    assert!(gives_up.await.is_err());
    assert_eq!(quota.used(), Cost { tokens: 101, time: Duration::from_secs(2) });
}

#[tokio::test(start_paused = true)]
async fn exhausted_time_stops_requests_without_a_limit() {
    let quota = Quota::unlimited().with_time(Duration::from_secs(1));
    let backend = Metered::new(Arc::new(Fails(BackendError::from_status(503, ""))), quota.clone());
    let asked = body(json!({ "messages": [] }));
    assert_eq!(backend.chat(&asked).await.expect_err("down").status(), Some(503));
    let error = backend.chat(&asked).await.expect_err("exhausted");
    assert_eq!(error.interruption(), Some(Interruption::BudgetExhausted));
    assert_eq!(quota.used().time, Duration::from_secs(1));
}

/// Streams one chunk per second without end.
struct Slow;

impl ChatBackend for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn chat<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, Result<crate::Answer, BackendError>> {
        Box::pin(std::future::pending())
    }

    fn stream<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, Result<crate::Chunks, BackendError>> {
        let chunks = futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok(json!({ "choices": [] })), ()))
        });
        Box::pin(std::future::ready(Ok(chunks.boxed())))
    }

    fn capabilities<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<crate::Capabilities, BackendError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn streams_respect_the_time_limit() {
    let quota = Quota::unlimited();
    let limit = Duration::from_millis(3500);
    let backend = Metered::new(Arc::new(Slow), quota.clone()).with_time(limit);
    let asked = body(json!({ "messages": [] }));
    let chunks: Vec<_> = backend.stream(&asked).await.expect("a stream").collect().await;
    assert_eq!(chunks.len(), 4, "three chunks and the end");
    assert_eq!(chunks[3].as_ref().expect_err("too late"), &BackendError::timeout(limit));
    assert_eq!(quota.used(), Cost { tokens: 4, time: limit }, "the prompt and what came");
}

#[tokio::test]
async fn reserves_tokens_for_each_choice() {
    let quota = Quota::unlimited();
    let script = ScriptedBackend::new([Ok(ScriptedBackend::says("Hi"))]);
    let backend = Metered::new(Arc::new(script), quota.clone());
    backend.chat(&body(json!({ "messages": [], "max_tokens": 10, "n": 3 }))).await.expect("an answer");
    assert_eq!(quota.used().tokens, 31);
}

#[tokio::test]
async fn adds_up_partial_usage_data() {
    let quota = Quota::unlimited();
    let mut answer = ScriptedBackend::says("Hi");
    answer["usage"] = json!({ "prompt_tokens": 3, "completion_tokens": 4 });
    let backend = Metered::new(Arc::new(ScriptedBackend::new([Ok(answer)])), quota.clone());
    backend.chat(&body(json!({ "messages": [] }))).await.expect("an answer");
    assert_eq!(quota.used().tokens, 7);
}

/// Never answers.
struct Silent;

impl ChatBackend for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn chat<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, Result<crate::Answer, BackendError>> {
        Box::pin(std::future::pending())
    }

    fn stream<'a>(&'a self, _: &'a Body) -> BoxFuture<'a, Result<crate::Chunks, BackendError>> {
        Box::pin(std::future::pending())
    }

    fn capabilities<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<crate::Capabilities, BackendError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn reserves_and_enforces_time() {
    let quota = Quota::unlimited().with_time(Duration::from_secs(8));
    let backend = Metered::new(Arc::new(Silent), quota.clone()).with_time(Duration::from_secs(3));
    let asked = body(json!({ "messages": [], "max_tokens": 100 }));
    let error = backend.chat(&asked).await.expect_err("no answer");
    assert_eq!(error.category(), Category::Timeout);
    assert_eq!(
        quota.left().time,
        Some(Duration::from_secs(5)),
        "the time is over, with an answer or without"
    );
    assert_eq!(quota.used().tokens, 101, "nobody knows how far it came");
    let kept = quota.reserve(Cost::time(Duration::from_secs(3))).expect("enough");
    let error = backend.chat(&asked).await.expect_err("exhausted");
    assert_eq!(error.to_string(), "quota exceeded: 3000 milliseconds requested, 2000 left");
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_when_the_time_quota_is_used_up() {
    let seconds = Duration::from_secs(5);
    let asked = body(json!({ "messages": [], "max_tokens": 100 }));
    let ignored = |_: crate::StreamEvent<'_>| std::ops::ControlFlow::Continue(());
    for call in 0..5 {
        let quota = Quota::unlimited().with_time(seconds);
        let (silent, slow) =
            (Metered::new(Arc::new(Silent), quota.clone()), Metered::new(Arc::new(Slow), quota.clone()));
        let error = match call {
            0 => silent.chat(&asked).await.map(drop),
            1 => silent.supports("m", crate::Feature::JsonSchema).await.map(drop),
            2 => silent.stream(&asked).await.map(drop),
            3 => slow.chat_streamed(&asked, &ignored).await.map(drop),
            _ => slow
                .stream(&asked)
                .await
                .expect("a stream")
                .map(|chunk| chunk.map(drop))
                .filter(|chunk| std::future::ready(chunk.is_err()))
                .next()
                .await
                .expect("an end"),
        };
        let error = error.expect_err("too late");
        assert_eq!(error.interruption(), Some(Interruption::BudgetExhausted), "{call}");
        assert_eq!(error.to_string(), "the request was stopped: the quota of time is used up");
        assert_eq!((quota.used().time, quota.left().time), (seconds, Some(Duration::ZERO)), "{call}");
    }
}
