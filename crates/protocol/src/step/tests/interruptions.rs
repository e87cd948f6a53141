use std::error::Error;
use std::fmt;

use super::*;
use crate::Interruption;
use crate::adapt::{Input, ProcessorError};
use crate::precheck::Planner;
use crate::quota::{Metered, Quota};
use crate::tools::{Closure, ToolCallingOptions, ToolDefinition, ToolRegistry, ToolResult};

const ALL: [Interruption; 3] = [Interruption::Cancelled, Interruption::Paused, Interruption::BudgetExhausted];

/// Stage at which a run is interrupted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Backend(usize),
    Validator,
    Planner,
    Processor(usize),
    Check,
    Tool,
}

/// Payload of a processor's interruption.
#[derive(Debug, PartialEq)]
struct Own(Interruption);

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the caller's own {}", self.0.name())
    }
}

impl Error for Own {}

fn stop(interruption: Interruption) -> ProcessorError<Interrupted> {
    let own = Own(interruption);
    let interrupted = match interruption {
        Interruption::Paused => Interrupted::paused(own),
        Interruption::BudgetExhausted => Interrupted::budget_exhausted(own),
        _ => Interrupted::cancelled(own),
    };
    interrupted.into()
}

struct Stops(Option<Interruption>);

impl Planner for Stops {
    fn plan<'a>(
        &'a self,
        _: &'a str,
        sample: u32,
        _: u32,
    ) -> futures_util::future::BoxFuture<'a, Result<String, BackendError>> {
        let plan = if sample == 0 { "read" } else { "write" };
        let plan = self.0.map_or_else(|| Ok(plan.to_owned()), |interruption| Err(interruption.into()));
        Box::pin(std::future::ready(plan))
    }
}

/// Creates a step that uses every stage and is interrupted at one of them.
fn interrupted(place: Place, interruption: Interruption) -> (Step, Arc<ScriptedBackend>) {
    let at = |wanted: Place| (place == wanted).then_some(interruption);
    // The first attempt fails after two repairs; the second would succeed.
    let texts = ["no", "no", "no", r#"{"count": 2}"#];
    let texts = if matches!(place, Place::Check) { [r#"{"count": 2}"#; 4] } else { texts };
    let mut answers: Vec<_> = texts.iter().map(|text| Ok(ScriptedBackend::says(text))).collect();
    match place {
        Place::Backend(number) => answers[number] = Err(interruption.into()),
        Place::Tool => answers.insert(0, Ok(ScriptedBackend::calls("1", "stop", "{}"))),
        _ => {}
    }
    let backend = Arc::new(ScriptedBackend::new(answers));
    let block = json!({
        "repair": {},
        "reasoning_precheck": { "enabled": true, "consensus_samples": 2, "inject_feedback": "context_key" },
    });
    let (validator, planner, check, tool) =
        (at(Place::Validator), at(Place::Planner), at(Place::Check), at(Place::Tool));
    let processed = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let process = move |_: Input<'_>, context: &Context| {
        context.set("processed", true);
        let number = processed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if place == Place::Processor(number) { Err(stop(interruption)) } else { Ok(None) }
    };
    let judge = move |_: &PlanRequest<'_>| match validator {
        Some(interruption) => Err(BackendError::from(interruption)),
        None => Ok(Judgement::failed("No.")),
    };
    let validate = move |_: &Value, _: &Context| check.map_or(Ok(()), |interruption| Err(stop(interruption)));
    let mut step = step(&backend, &block)
        .with_precheck(|precheck| precheck.with_validator(judge).with_planner(Stops(planner)))
        .with_processor(process)
        .with_validator(validate);
    if let Some(interruption) = tool {
        let tools = move |context: &Context| {
            let context = context.clone();
            let stop = Closure::new(move |_: &Body| {
                context.set("tool", true);
                ToolResult::interrupted(interruption)
            });
            let mut registry = ToolRegistry::new();
            registry.add(ToolDefinition::new("stop", "", json!({})), stop).expect("a tool");
            Arc::new(registry) as Arc<dyn ToolSource>
        };
        step = step.with_tools(tools, ToolCallingOptions::default());
    }
    (step, backend)
}

#[tokio::test]
async fn interruptions_pass_through_a_step_unchanged() {
    let backends = (0..4).map(Place::Backend);
    let processors = (0..4).map(Place::Processor);
    let others = [Place::Validator, Place::Planner, Place::Check, Place::Tool];
    for place in backends.chain(processors).chain(others) {
        for interruption in ALL {
            let (step, backend) = interrupted(place, interruption);
            let memory = MemorySink::default();
            let run = Tracer::default().with_sink(memory.clone()).run("r");
            let mut context = body(json!({ "old": 1 }));
            let error = step.run(&StepInput::of_user("Count."), &mut context, &run).await;
            let error = error.expect_err("interrupted");
            assert_eq!(error.interruption(), Some(interruption), "{place:?}: {error}");
            match place {
                Place::Processor(_) | Place::Check => {
                    let own = error.interrupted().expect("its own").source.downcast_ref::<Own>();
                    assert_eq!(own, Some(&Own(interruption)), "{place:?}");
                }
                _ => assert_eq!(error.backend(), Some(&BackendError::from(interruption)), "{place:?}"),
            }
            assert_eq!(context, body(json!({ "old": 1 })), "{place:?}");
            let asked = match place {
                Place::Backend(number) | Place::Processor(number) => number + 1,
                Place::Validator | Place::Planner => 0,
                Place::Check | Place::Tool => 1,
            };
            assert_eq!(backend.asked().len(), asked, "{place:?}: nothing is asked after it");
            drop(run);
            let last = memory.outline().remove(0).spans.remove(0);
            assert_eq!(last.status, Status::Cancelled, "{place:?}");
            assert_eq!(last.spans.last().expect("an attempt").status, Status::Cancelled, "{place:?}");
        }
    }
}

#[tokio::test]
async fn a_quota_ends_a_step_before_its_limit() {
    let mut answer = ScriptedBackend::says("no");
    answer["usage"] = json!({ "total_tokens": 90 });
    let script = Arc::new(ScriptedBackend::new([Ok(answer)]));
    let quota = Quota::unlimited().with_tokens(150);
    let backend = Arc::new(Metered::new(script.clone(), quota.clone()).with_answer(50));
    let step = Step::new("s", PromptRunner::new(backend, "m"));
    let step = step.with_schema(&schema()).expect("a schema");
    let mut context = Body::new();
    let error = step.run(&StepInput::of_user("Count."), &mut context, &Tracer::default().run("r")).await;
    assert_eq!(error.expect_err("exhausted").interruption(), Some(Interruption::BudgetExhausted));
    assert_eq!((script.asked().len(), quota.used().tokens), (1, 90));
}
