//! scratch
#![allow(clippy::all, clippy::pedantic, clippy::unwrap_used, clippy::print_stdout)]
#[path = "../tests/tokenizers/gguf_file.rs"]
mod gguf_file;
use formwork_vocab::{Tokenizer, tokenizer::EncodeOptions};
use std::{io::Read, time::Instant};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let bytes = std::fs::read(&args[2]).unwrap();
    let json = args[2].ends_with("json");
    if args[1] == "bpe" {
        for _ in 0..5 {
            let f = gguf_file::read(&bytes);
            let t0 = Instant::now();
            let vocab: tokenizers::models::bpe::Vocab = f.tokens.into_iter().zip(0..).collect();
            let merges = f
                .merges
                .iter()
                .map(|m| {
                    let (a, b) = m.split_once(' ').unwrap();
                    (a.to_owned(), b.to_owned())
                })
                .collect();
            let bpe =
                tokenizers::models::bpe::BPE::builder().vocab_and_merges(vocab, merges).build().unwrap();
            eprintln!("crate bpe {:?}", t0.elapsed());
            drop(bpe);
        }
        return;
    }
    if args[1] == "time" {
        for _ in 0..5 {
            let t0 = Instant::now();
            let tok = if json {
                Tokenizer::from_json(&bytes).unwrap()
            } else {
                let f = gguf_file::read(&bytes);
                eprint!("read {:?} ", t0.elapsed());
                let t0 = Instant::now();
                let t = Tokenizer::from_gguf(f).unwrap();
                eprint!("build {:?} ", t0.elapsed());
                t
            };
            eprintln!(
                "total {:?} ends {:?} bos {:?} {}",
                t0.elapsed(),
                tok.vocabulary().ends(),
                tok.bos(),
                tok.add_bos()
            );
        }
        return;
    }
    let tok = if json {
        Tokenizer::from_json(&bytes).unwrap()
    } else {
        Tokenizer::from_gguf(gguf_file::read(&bytes)).unwrap()
    };
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let options = EncodeOptions { special: args[1].contains("special"), bos: false };
    let t0 = Instant::now();
    let mut n = 0;
    let mut bad = 0;
    for t in text.split('\0') {
        let ids = if args[1].contains("fragment") { tok.encode_fragment(t) } else { tok.encode(t, options) };
        match ids {
            Ok(ids) => {
                n += ids.len();
                if !args[1].contains("speed") {
                    println!("{}", ids.iter().map(|i| i.0.to_string()).collect::<Vec<_>>().join(" "));
                    let d = tok.decode_special(&ids);
                    if d != t.as_bytes() {
                        bad += 1;
                        if bad < 10 {
                            eprintln!(
                                "roundtrip {:?} {:?}",
                                t.chars().take(80).collect::<String>(),
                                String::from_utf8_lossy(&d).chars().take(80).collect::<String>()
                            );
                        }
                    }
                }
            }
            Err(e) => println!("ERR {e}"),
        }
    }
    eprintln!("{} bytes {} tokens {:?} bad roundtrips {bad}", text.len(), n, t0.elapsed());
}
