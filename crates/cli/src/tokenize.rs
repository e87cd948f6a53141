//! `formwork tokenize`

use std::io::Write;

use anyhow::{Context, Result, bail};
use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{TokenId, Tokenizer};

use crate::args::TokenizeArgs;
use crate::{files, load};

pub(crate) fn tokenize(args: &TokenizeArgs) -> Result<bool> {
    let Some(tokenizer) = load::tokenizer(&args.tokenizer)? else {
        bail!("no tokenizer given; use -m or --tokenizer");
    };
    let input = files::read_input_text(args.input.as_deref())?;
    if args.decode {
        return decode(&tokenizer, &input, args.special);
    }
    let options = EncodeOptions { special: args.special, bos: args.bos };
    let ids = tokenizer.encode(&input, options)?;
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    if args.ids {
        let ids: Vec<String> = ids.iter().map(TokenId::to_string).collect();
        writeln!(stdout, "[{}]", ids.join(", "))?;
    } else {
        for id in ids {
            let bytes = tokenizer.vocabulary().bytes(id);
            writeln!(stdout, "{:>7}  {:?}", id.0, String::from_utf8_lossy(bytes))?;
        }
    }
    stdout.flush()?;
    Ok(true)
}

fn decode(tokenizer: &Tokenizer, input: &str, special: bool) -> Result<bool> {
    let numbers = input.split(|c: char| c.is_whitespace() || matches!(c, '[' | ']' | ','));
    let ids = numbers
        .filter(|number| !number.is_empty())
        .map(|number| {
            let id = number.parse().with_context(|| format!("`{number}` is not a token id"))?;
            let known = tokenizer.vocabulary().len();
            if id as usize >= known {
                bail!("token {id} is out of range (vocabulary size {known})");
            }
            Ok(TokenId(id))
        })
        .collect::<Result<Vec<_>>>()?;
    std::io::stdout().write_all(&tokenizer.decode_text(&ids, special))?;
    Ok(true)
}
