//! `formwork devices`

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use formwork_benches::throughput;
use formwork_lm::{Batch, LanguageModel, ModelError, Role, Run, SequenceId, Wanted};
use formwork_model::synthetic::Synthetic;
use formwork_model::{Device, GpuInfo, HAS_GPU_KERNELS, MemoryUse, Model, OpenOptions, gpus};
use formwork_vocab::TokenId;
use serde_json::{Value, json};

use crate::load;

#[derive(clap::Args)]
pub(crate) struct DevicesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<DevicesCommand>,
}

#[derive(Subcommand)]
pub(crate) enum DevicesCommand {
    /// Compare a GPU with the CPU on small models of every kind, and measure its speed. Prints a report.
    Test(DeviceTestArgs),
}

#[derive(clap::Args)]
pub(crate) struct DeviceTestArgs {
    /// Device to test: gpu, gpu:N or gpu:cpu.
    #[arg(default_value = "gpu")]
    pub(crate) device: Device,

    /// Random weights with the shape of a real model, for the speed (see `formwork bench decode --help`).
    #[arg(long, value_name = "NAME", default_value = "llama-1b-q4_k")]
    pub(crate) synthetic: Synthetic,

    /// Do not measure the speed.
    #[arg(long)]
    pub(crate) quick: bool,
}

/// Number of tokens of a prompt and of generated tokens in a check.
const CHECKED: [usize; 2] = [70, 12];

/// Limits of the difference of two logits, relative to the largest: with float weights, and with
/// quantised ones, where a small difference can round an activation to the next of 8 bits.
const BOUNDS: [f32; 2] = [1e-2, 5e-2];

/// Lists the GPUs, or tests one. Returns false if there is none, or if a check fails.
pub(crate) fn devices(args: &DevicesArgs, as_json: bool) -> Result<bool> {
    ensure!(
        HAS_GPU_KERNELS,
        "this build has no code for GPUs; build with the feature \"gpu\" (cargo build --release --features gpu)"
    );
    match &args.command {
        None => list(as_json),
        Some(DevicesCommand::Test(args)) => test(args, as_json),
    }
}

fn list(as_json: bool) -> Result<bool> {
    let gpus = gpus();
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{}", gpus.iter().map(as_value).collect::<Value>())?;
    } else if gpus.is_empty() {
        eprintln!(
            "no GPU found; NVIDIA's and other drivers also need the Vulkan loader (Debian: libvulkan1)"
        );
    } else {
        for gpu in &gpus {
            writeln!(out, "{}", Line(gpu))?;
        }
    }
    Ok(!gpus.is_empty())
}

fn as_value(gpu: &GpuInfo) -> Value {
    json!({
        "device": gpu.device.to_string(),
        "name": gpu.name,
        "kind": gpu.kind,
        "interface": gpu.interface,
        "driver": gpu.driver,
        "binding_bytes": gpu.binding_bytes,
        "buffer_bytes": gpu.buffer_bytes,
        "memory_bytes": gpu.memory_bytes,
        "matrix_cores": gpu.matrix_cores,
    })
}

/// Formats a GPU as one line.
struct Line<'a>(&'a GpuInfo);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gpu = self.0;
        let megabytes = |bytes: u64| bytes >> 20;
        write!(f, "{:<8} {} ({}), {}", gpu.device.to_string(), gpu.name, gpu.kind, gpu.driver)?;
        write!(f, " over {}, ", gpu.interface)?;
        if let Some(bytes) = gpu.memory_bytes {
            write!(f, "{} MiB of memory, ", megabytes(bytes))?;
        }
        if let Some(size) = gpu.matrix_cores {
            write!(f, "matrix cores with blocks of {size}, ")?;
        }
        let (binding, buffer) = (megabytes(gpu.binding_bytes), megabytes(gpu.buffer_bytes));
        write!(f, "at most {binding} MiB per binding and {buffer} MiB per buffer")
    }
}

/// Result of a check: a small model on the device and on the CPU.
struct Check {
    name: String,
    /// Largest difference of two logits, relative to the largest logit, and its limit.
    difference: f32,
    bound: f32,
    /// True if a token has the same bits alone and among others.
    is_batch_invariant: bool,
}

impl Check {
    fn passes(&self) -> bool {
        // NaN fails.
        self.difference <= self.bound && self.is_batch_invariant
    }
}

/// Tests a device, and prints a report.
fn test(args: &DeviceTestArgs, as_json: bool) -> Result<bool> {
    let found = gpus();
    let info = found.iter().find(|gpu| gpu.device == args.device);
    let info = info.with_context(|| {
        format!("no device {}; `formwork devices` lists the {} that were found", args.device, found.len())
    })?;
    let mut out = std::io::stdout().lock();
    if !as_json {
        writeln!(out, "formwork {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "{}\n", Line(info))?;
        writeln!(out, "{:<24} {:>11}  {:<7} bits alone and among others", "check", "difference", "limit")?;
    }
    let mut checks = Vec::new();
    let folder = load::hub().cache().join("synthetic");
    for synthetic in Synthetic::checks() {
        let check = check(args.device, synthetic, &folder).with_context(|| synthetic.to_string())?;
        if !as_json {
            let Check { name, difference, bound, is_batch_invariant } = &check;
            let bits = if *is_batch_invariant { "equal" } else { "different" };
            let verdict = if check.passes() { "" } else { ", FAILED" };
            writeln!(out, "{name:<24} {difference:>11.1e}  {bound:<7.0e} {bits}{verdict}")?;
        }
        checks.push(check);
    }
    let speed = if args.quick { None } else { Some(Speed::measure(args)?) };
    let failed = checks.iter().filter(|check| !check.passes()).count();
    if as_json {
        let checks = checks.iter().map(|check| {
            json!({
                "model": check.name,
                "difference": check.difference,
                "limit": check.bound,
                "is_batch_invariant": check.is_batch_invariant,
                "passes": check.passes(),
            })
        });
        let report = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "device": as_value(info),
            "checks": checks.collect::<Value>(),
            "speed": speed.as_ref().map(Speed::as_value),
        });
        writeln!(out, "{report}")?;
    } else {
        if let Some(speed) = &speed {
            writeln!(out, "\n{speed}")?;
        }
        writeln!(out, "\n{} checks passed, {failed} failed", checks.len() - failed)?;
    }
    Ok(failed == 0)
}

/// Compares a small model on a device with the CPU.
fn check(device: Device, synthetic: Synthetic, folder: &Path) -> Result<Check> {
    let path = synthetic.write(folder)?;
    let open = |device| Model::open(&path, OpenOptions { device, ..OpenOptions::default() });
    let mut models = [open(Device::Cpu)?.language_model(), open(device)?.language_model()];
    let [expected, given] = models.each_mut().map(|model| rows(&mut **model));
    let (expected, given) = (expected?, given?);
    let mut difference = 0f32;
    for (expected, given) in expected.iter().zip(&given) {
        let largest = expected.iter().fold(1f32, |most, logit| most.max(logit.abs()));
        for (expected, given) in expected.iter().zip(given) {
            let own = (expected - given).abs() / largest;
            // A maximum would ignore NaN.
            difference = if own <= difference { difference } else { own };
        }
    }
    let bound = BOUNDS[usize::from(!synthetic.has_float_weights())];
    let is_batch_invariant = models[1].is_batch_invariant();
    Ok(Check { name: synthetic.to_string(), difference, bound, is_batch_invariant })
}

/// Returns the rows of logits after a prompt and after generated tokens.
fn rows(model: &mut dyn LanguageModel) -> Result<Vec<Vec<f32>>, ModelError> {
    let [prompt, generated] = CHECKED;
    let tokens: Vec<TokenId> = (0..prompt + generated).map(|at| TokenId((at * 37 % 251) as u32)).collect();
    let (prompt, generated) = tokens.split_at(prompt);
    let sequence = model.open();
    let mut rows = vec![row(model, sequence, prompt, Role::Prompt)?];
    for token in generated.chunks(1) {
        rows.push(row(model, sequence, token, Role::Generated)?);
    }
    Ok(rows)
}

fn row(
    model: &mut dyn LanguageModel,
    sequence: SequenceId,
    tokens: &[TokenId],
    role: Role,
) -> Result<Vec<f32>, ModelError> {
    let runs = vec![Run { sequence, tokens, role, wanted: Wanted::All }];
    Ok(model.forward(&Batch { runs })?.row(0).to_vec())
}

/// Speed of a model of real size.
struct Speed {
    name: String,
    /// Size of the weights in bytes.
    weights: usize,
    /// Seconds that opening takes.
    opening: f64,
    /// Tokens per second.
    decode: f64,
    prefill: f64,
}

impl Speed {
    fn measure(args: &DeviceTestArgs) -> Result<Self> {
        const PROMPT: usize = 512;
        const GENERATED: usize = 64;
        const RUNS: usize = 2;
        let path = args.synthetic.write(&load::hub().cache().join("synthetic"))?;
        let options = OpenOptions { device: args.device, ..OpenOptions::default() };
        let start = Instant::now();
        let model = Model::open(path, options)?;
        let opening = start.elapsed().as_secs_f64();
        let tokens = throughput::tokens(model.tokenizer()?.vocabulary(), PROMPT);
        let mut decoder = model.language_model();
        let prefill = throughput::prefill(&mut *decoder, &tokens, RUNS, |_| {})?.median();
        let (before, after) = tokens[..GENERATED + 16].split_at(16);
        let decode = throughput::decode(&mut *decoder, before, after, RUNS, |_| {})?.median();
        let weights = MemoryUse::of(model.checkpoint(), OpenOptions::default())?.weights;
        Ok(Self { name: args.synthetic.to_string(), weights, opening, decode, prefill })
    }

    fn as_value(&self) -> Value {
        json!({
            "model": self.name,
            "weight_bytes": self.weights,
            "opening_seconds": self.opening,
            "decode": self.decode,
            "prefill": self.prefill,
        })
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, weights, opening, decode, prefill } = self;
        let read = decode * *weights as f64 / 1e9;
        writeln!(f, "{name}, opened in {opening:.1} s")?;
        writeln!(f, "decode  {decode:>9.1} tokens/s, which read {read:.1} GB/s of weights")?;
        write!(f, "prefill {prefill:>9.1} tokens/s")
    }
}
