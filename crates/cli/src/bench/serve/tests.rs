use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use formwork_engine::{Engine, EngineOptions};
use formwork_lm::{ChatInput, ChatTemplate, ScriptedModel, TemplateError};
use formwork_server::{App, ServedModel, ServerOptions};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::args::BenchCommand;
use crate::command::{Args, Command};

/// Runs the command and reads its results.
fn bench(url: &str, more: &[&str]) -> Result<(bool, Vec<Value>)> {
    let folder = tempfile::tempdir()?;
    let json: PathBuf = folder.path().join("out.json");
    let args = ["formwork", "bench", "serve", "--url", url, "--model", "m"];
    let args = Args::try_parse_from([&args[..], more].concat())?;
    let Command::Bench(BenchCommand::Serve(args)) = args.command else { panic!("another command") };
    let well = serve(&args, Some(&json))?;
    let lines = std::fs::read_to_string(&json)?;
    Ok((well, lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?))
}

/// Runs a server on a background thread until the test process ends.
fn in_background<F: Future<Output = ()> + 'static>(
    serve: impl FnOnce(TcpListener) -> F + Send + 'static,
) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { serve(TcpListener::from_std(listener).unwrap()).await });
    });
    address
}

struct Ask;

impl ChatTemplate for Ask {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        Ok(input.messages.iter().map(formwork_lm::Message::text).collect())
    }
}

/// Starts a Formwork server whose model always prefers `a`.
fn ours() -> String {
    let byte = |byte| Token { bytes: vec![byte], kind: TokenKind::Text };
    let end = Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control };
    let tokens = (0..=255).map(byte).chain([end]).collect();
    let tokenizer = Arc::new(Tokenizer::greedy(Vocabulary::new(tokens, vec![TokenId(256)]).unwrap()));
    let model = ScriptedModel::new(257, 4000, |_, row| row[usize::from(b'a')] = 1.0);
    let engine = Engine::start(Box::new(model), tokenizer, EngineOptions::default());
    let served =
        ServedModel { id: "m".to_owned(), aliases: vec![], created: 7, engine, template: Arc::new(Ask) };
    let app = App::new(vec![served], ServerOptions::default()).unwrap();
    let address = in_background(|listener| async {
        formwork_server::serve(listener, app, std::future::pending()).await.unwrap();
    });
    format!("http://{address}")
}

#[test]
fn answers_of_a_formwork_server_match_the_schema() -> Result<()> {
    let (well, lines) = bench(&ours(), &["-c", "1,3", "-n", "6", "--schema", "--max-tokens", "300"])?;
    assert!(well, "{lines:?}");
    let levels: Vec<_> = lines.iter().map(|line| (&line["clients"], &line["schema"])).collect();
    let expected = [(1, false), (1, true), (3, false), (3, true)];
    assert_eq!(levels.len(), expected.len());
    for (line, (clients, schema)) in lines.iter().zip(expected) {
        assert_eq!((&line["clients"], &line["schema"]), (&clients.into(), &schema.into()));
        assert_eq!((&line["answers"], &line["errors"], &line["invalid"]), (&6.into(), &0.into(), &0.into()));
        // Free text runs into the token limit; output with a schema ends earlier.
        assert_eq!(line["cut"], if schema { 0 } else { 6 });
        assert_eq!(line["first_token_ms"]["count"], 6);
        assert!(line["output_tokens_per_s"].as_f64().unwrap() > 0.0);
        if !schema {
            assert_eq!(line["output_tokens"], 6 * 300);
            assert_eq!(line["between_tokens_ms"]["count"], 6 * 299);
        }
    }
    Ok(())
}

/// Starts a server that answers every request with `head` and `body` and closes the connection.
fn says(head: &'static str, body: &'static str) -> String {
    let address = in_background(move |listener| async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut read = Vec::new();
            while !read.ends_with(b"}") {
                let mut buffer = [0; 4096];
                let count = stream.read(&mut buffer).await.unwrap();
                read.extend_from_slice(&buffer[..count]);
            }
            assert!(read.starts_with(b"POST /base/chat/completions HTTP/1.1\r\n"));
            let answer = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    format!("http://{address}/base/")
}

#[test]
fn validates_answers_of_other_servers_and_counts_chunks() -> Result<()> {
    // The stream has comments, CRLF line ends, no usage, and an answer that does not match the
    // schema.
    let url = says(
        "200 OK",
        ": hello\r\n\r\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n\
         data:{\"choices\":[{\"delta\":{\"content\":\"{\\\"a\\\"\"}}]}\n\n\
         data: {\"choices\":[{\"delta\":{\"content\":\"}\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    );
    let (well, lines) = bench(&url, &["-n", "2", "--schema", "--warmup", "0"])?;
    assert!(!well);
    assert_eq!((&lines[0]["invalid"], &lines[0]["output_tokens"]), (&0.into(), &4.into()));
    assert_eq!((&lines[1]["invalid"], &lines[1]["answers"]), (&2.into(), &2.into()));
    assert_eq!(lines[1]["between_tokens_ms"]["count"], 2);
    Ok(())
}

/// Starts a server that answers two requests on a connection and closes the connection when the
/// third arrives. `read` says whether the server reads the third request first.
fn tires(read: bool) -> String {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let address = in_background(move |listener| async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut requests = 0;
            while requests < 3 {
                if requests == 2 && !read {
                    stream.readable().await.unwrap();
                    break;
                }
                let mut buffer = [0; 4096];
                let count = stream.read(&mut buffer).await.unwrap();
                if count == 0 {
                    break;
                }
                if buffer[..count].ends_with(b"}") {
                    requests += 1;
                    if requests < 3 {
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                }
            }
        }
    });
    format!("http://{address}")
}

#[test]
fn reconnects_after_a_closed_connection() -> Result<()> {
    for read in [true, false] {
        let (well, lines) = bench(&tires(read), &["-n", "5", "--warmup", "0"])?;
        assert!(well, "{lines:?}");
        assert_eq!((&lines[0]["errors"], &lines[0]["answers"]), (&0.into(), &5.into()), "{read}");
    }
    Ok(())
}

#[test]
fn counts_failures() -> Result<()> {
    let broken = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let failed = "data: {\"error\":{\"message\":\"no\"}}\n\ndata: [DONE]\n\n";
    for (head, body) in
        [("503 Busy", "{}"), ("200 OK", broken), ("200 OK", failed), ("200 OK", "data: {\n\n")]
    {
        let (well, lines) = bench(&says(head, body), &["-n", "2", "--warmup", "0"])?;
        assert!(!well);
        assert_eq!((&lines[0]["errors"], &lines[0]["answers"]), (&2.into(), &0.into()), "{head} {body}");
    }
    // A server that fails during the warm-up is not measured.
    assert!(bench(&says("503 Busy", "{}"), &["-n", "2"]).is_err());
    Ok(())
}

#[test]
fn reports_unusable_arguments() {
    let error = |url: &str, more: &[&str]| format!("{:#}", bench(url, more).unwrap_err());
    let told = error("https://example.com/v1", &[]);
    assert!(told.contains("https is not supported"), "{told}");
    let told = error("example.com", &[]);
    assert!(told.contains("expected http://HOST:PORT/v1"), "{told}");
    assert!(bench("http://127.0.0.1:1", &["-n", "1", "--duration", "1"]).is_err());
}
