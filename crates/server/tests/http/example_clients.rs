//! The example programs in Python and JavaScript run a tool loop through the server.

use std::path::PathBuf;
use std::process::Stdio;

use formwork_lm::ScriptedModel;
use formwork_server::{App, CallbackHost, HostedTools, ServerOptions};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::oneshot;

use crate::fixture::{END, served, start};
use formwork_protocol::tools::ToolRegistry;

const CALL: &str =
    "<tool_call>\n{\"name\": \"count_stock\", \"arguments\": {\"item\": \"lamp\"}}\n</tool_call>";

/// Creates a model that calls `count_stock` and then reports the result.
fn counter() -> ScriptedModel {
    ScriptedModel::new(END + 1, 8000, |tokens, row| {
        let said: Vec<u8> = tokens.iter().map(|token| token.0 as u8).collect();
        let text = String::from_utf8_lossy(&said);
        let (before, written) = text.rsplit_once("assistant:").unwrap();
        let wanted = if before.contains("\"count\":12") { "There are 12 lamps." } else { CALL };
        let next = wanted.as_bytes().get(written.len()).map_or(END, |&byte| byte.into());
        row[next] = 1000.0;
    })
}

async fn run(program: &str, file: &str) {
    // The system chooses a free port, which the example's callback then takes.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let callback = CallbackHost::new(&format!("http://127.0.0.1:{port}/")).unwrap();
    let tools = HostedTools::new(ToolRegistry::new(), [].into(), vec![callback]);
    let options = ServerOptions { tools, ..ServerOptions::default() };
    let app = App::new(vec![served("m", start(counter()))], options).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(formwork_server::serve(listener, app, async {
        let _ = stopped.await;
    }));
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file);
    let output = Command::new(program)
        .arg(path)
        .args([&url, "m"])
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output =
        tokio::time::timeout(std::time::Duration::from_secs(60), output).await.expect("the example ends");
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return eprintln!("{program} is missing; skipped");
        }
        output => output.unwrap(),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text, "count_stock: lamp\nThere are 12 lamps.\n", "{told}");
    let _ = stop.send(());
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_python_example_runs_a_tool_loop() {
    run("python3", "python/tools.py").await;
}

#[tokio::test]
async fn the_javascript_example_runs_a_tool_loop() {
    run("node", "js/tools.mjs").await;
}
