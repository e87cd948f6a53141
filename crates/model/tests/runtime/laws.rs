//! Properties that hold for every model, every type of weights and any tokens.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use candle_core::quantized::GgmlDType;
use formwork_lm::{Batch, ChatInput, LanguageModel, Message, Role, Run, Wanted, masked};
use formwork_model::{KvCacheType, OpenOptions};
use formwork_vocab::{TokenId, TokenSet};

use crate::published::goldens;
use crate::tiny::{self, CONTEXT, VOCABULARY, append};
use crate::{converted, tiny::tokens as some_tokens};

const TYPES: [GgmlDType; 3] = [GgmlDType::F32, GgmlDType::Q8_0, GgmlDType::Q4_0];
/// Vocabulary size of the smallest model.
const LEAST_VOCABULARY: u32 = 96;

/// Calls `check` for every architecture with several types of weights.
fn each_model(check: impl Fn(&mut dyn LanguageModel)) {
    let small = |name: &str| name.ends_with("-64");
    for (_, golden) in goldens().iter().filter(|(name, _)| small(name)) {
        for dtype in TYPES {
            let file = converted::gguf_with(golden, dtype, Some(CONTEXT as u32));
            check(&mut *tiny::open(&file).unwrap().language_model());
            if dtype == GgmlDType::Q8_0 {
                let options = OpenOptions { kv_cache: KvCacheType::Q8, ..OpenOptions::default() };
                check(&mut *tiny::open_with(&file, options).unwrap().language_model());
            }
        }
    }
}

/// Returns tokens that every model has. They depend on `seed`.
fn tokens(len: usize, seed: usize) -> Vec<TokenId> {
    some_tokens(len, seed).into_iter().map(|token| TokenId(token.0 % LEAST_VOCABULARY)).collect()
}

#[test]
fn forced_tokens_give_the_same_bits_together_and_one_by_one() {
    each_model(|model| {
        let (prompt, forced) = (tokens(30, 2), tokens(45, 3));
        let [together, stepwise] = [(); 2].map(|()| model.open());
        append(model, together, &prompt, Role::Prompt, Wanted::Nothing).unwrap();
        append(model, stepwise, &prompt, Role::Prompt, Wanted::Nothing).unwrap();
        let expected = append(model, together, &forced, Role::Generated, Wanted::All).unwrap();
        let mut given = Vec::new();
        for token in forced {
            given = append(model, stepwise, &[token], Role::Generated, Wanted::All).unwrap();
        }
        assert_eq!(given, expected);
    });
}

#[test]
fn rows_of_a_run_are_those_of_its_tokens_one_by_one() {
    each_model(|model| {
        let (prompt, text) = (tokens(300, 2), tokens(70, 3));
        let mut set = TokenSet::empty(model.vocab_size());
        (0..9).for_each(|token| set.insert(TokenId(7 * token)));
        for (role, count) in [(Role::Generated, 40), (Role::Generated, 1), (Role::Prompt, 10)] {
            let wanted: Vec<_> = (0..count).map(|row| (row % 3 == 1).then_some(&set)).collect();
            let [together, stepwise] = [(); 2].map(|()| model.open());
            for sequence in [together, stepwise] {
                append(model, sequence, &prompt, Role::Prompt, Wanted::Nothing).unwrap();
            }
            let run = Run { sequence: together, tokens: &text, role, wanted: Wanted::Each(&wanted) };
            let rows = model.forward(&Batch { runs: vec![run] }).unwrap().rows(0).to_vec();
            assert_eq!(rows.len(), count);
            if role == Role::Prompt {
                let whole = append(model, stepwise, &text, role, Wanted::All).unwrap();
                assert_eq!(rows[count - 1], whole);
                continue;
            }
            for (index, token) in text.iter().enumerate() {
                let row = append(model, stepwise, &[*token], role, Wanted::All).unwrap();
                let Some(at) = index.checked_sub(text.len() - count) else { continue };
                assert_eq!(rows[at], masked(row, wanted[at]), "row {at} of {count}");
            }
        }
    });
}

#[test]
fn a_fork_continues_like_a_fresh_sequence() {
    each_model(|model| {
        let (prompt, own, others) = (tokens(330, 4), tokens(9, 5), tokens(70, 6));
        let fresh = model.open();
        append(model, fresh, &prompt, Role::Prompt, Wanted::Nothing).unwrap();
        let expected = append(model, fresh, &own, Role::Generated, Wanted::All).unwrap();
        let parent = model.open();
        append(model, parent, &prompt, Role::Prompt, Wanted::Nothing).unwrap();
        let fork = model.fork(parent, prompt.len()).unwrap();
        // The parent sequence writes to the same positions as the fork.
        let with_others = append(model, parent, &others, Role::Generated, Wanted::All).unwrap();
        assert_eq!(append(model, fork, &own, Role::Generated, Wanted::All).unwrap(), expected);
        model.close(parent);
        // Another prompt may share a prefix of any length.
        let begun = model.fork(fork, 101).unwrap();
        append(model, begun, &prompt[101..], Role::Prompt, Wanted::Nothing).unwrap();
        assert_eq!(append(model, begun, &others, Role::Generated, Wanted::All).unwrap(), with_others);
        assert_eq!(model.prompt_grain(), 1);
        assert!(model.can_fork() && model.kv_bytes_per_token() > 0);
    });
}

#[test]
fn hidden_states_do_not_depend_on_cuts_at_whole_pieces() {
    each_model(|model| {
        let text = tokens(300, 8);
        let [whole, cut] = [(); 2].map(|()| model.open());
        let expected = model.hidden_states(whole, &text).unwrap();
        let mut given = model.hidden_states(cut, &text[..256]).unwrap();
        given.extend(model.hidden_states(cut, &text[256..]).unwrap());
        assert_eq!(given, expected);
        assert_eq!(expected.len() % text.len(), 0);
    });
}

#[test]
fn a_truncated_sequence_replays_like_a_fresh_one() {
    each_model(|model| {
        let text = tokens(300, 4);
        let [fresh, replayed] = [(); 2].map(|()| model.open());
        let expected = append(model, fresh, &text, Role::Generated, Wanted::All).unwrap();
        append(model, replayed, &text[..140], Role::Generated, Wanted::Nothing).unwrap();
        append(model, replayed, &tokens(70, 5), Role::Generated, Wanted::Nothing).unwrap();
        model.truncate(replayed, 140).unwrap();
        let given = append(model, replayed, &text[140..], Role::Generated, Wanted::All).unwrap();
        assert_eq!(given, expected);
    });
}

/// Tests sequences that lose the copies of their states, also while others are computed.
#[test]
fn states_are_computed_again_without_copies() {
    for (_, golden) in goldens().iter().filter(|(_, golden)| golden.is_hybrid()) {
        let file = converted::gguf_with(golden, GgmlDType::Q8_0, Some(CONTEXT as u32));
        let options = OpenOptions { state_bytes: Some(0), ..OpenOptions::default() };
        let model = &mut *tiny::open_with(&file, options).unwrap().language_model();
        let text = tokens(300, 4);
        let [fresh, cut, idle, other] = [(); 4].map(|()| model.open());
        let expected = append(model, fresh, &text, Role::Generated, Wanted::All).unwrap();
        append(model, cut, &text[..270], Role::Prompt, Wanted::Nothing).unwrap();
        append(model, idle, &text[..200], Role::Prompt, Wanted::Nothing).unwrap();
        model.truncate(cut, 140).unwrap();
        assert_eq!(append(model, cut, &text[140..], Role::Generated, Wanted::All).unwrap(), expected);
        assert_eq!(model.replayed_tokens(), 140);
        for token in tokens(70, 5) {
            append(model, other, &[token], Role::Generated, Wanted::Nothing).unwrap();
        }
        let fork = model.fork(idle, 150).unwrap();
        assert_eq!(append(model, idle, &text[200..], Role::Generated, Wanted::All).unwrap(), expected);
        assert_eq!(append(model, fork, &text[150..], Role::Generated, Wanted::All).unwrap(), expected);
        assert_eq!(model.replayed_tokens(), 140 + 200 + 150);
    }
}

/// Tests passes that check drafts and keep any number of them. States are copied every 64 tokens, so
/// some drafts lie on both sides of a copy.
#[test]
fn removed_drafts_leave_no_trace_and_cost_nothing() {
    each_model(|model| {
        let text = tokens(160, 4);
        let [plain, drafted] = [(); 2].map(|()| model.open());
        append(model, plain, &text[..55], Role::Prompt, Wanted::Nothing).unwrap();
        append(model, drafted, &text[..55], Role::Prompt, Wanted::Nothing).unwrap();
        let mut at = 55;
        for (round, accepted) in [3, 0, 5, 1, 2, 5, 4, 0, 0, 3, 5, 5].into_iter().enumerate() {
            let drafts: Vec<_> = text[at..=at + accepted].iter().copied().chain(tokens(5, round)).collect();
            let drafts = &drafts[..6];
            let wanted = Wanted::Each(&[None; 6]);
            let run = Run { sequence: drafted, tokens: drafts, role: Role::Generated, wanted };
            let rows = model.forward(&Batch { runs: vec![run] }).unwrap().rows(0).to_vec();
            for (row, token) in rows.iter().zip(&text[at..=at + accepted]) {
                let expected = append(model, plain, &[*token], Role::Generated, Wanted::All).unwrap();
                assert_eq!(*row, expected, "round {round}");
            }
            // A fork keeps some of the drafts and appends other tokens.
            let fork = model.fork(drafted, at + accepted + 1).unwrap();
            let given = append(model, fork, &text[..3], Role::Prompt, Wanted::All).unwrap();
            let expected = model.fork(plain, at + accepted + 1).unwrap();
            let expected = append(model, expected, &text[..3], Role::Prompt, Wanted::All).unwrap();
            assert_eq!(given, expected, "round {round}");
            at += accepted + 1;
            model.truncate(drafted, at).unwrap();
        }
        assert_eq!(model.replayed_tokens(), 0);
        assert!(model.removes_drafts_cheaply());
        // A copy of the state was made after 64 tokens, in the middle of drafts.
        let before = model.replayed_tokens();
        for len in [at, at - 1, 64] {
            let [expected, given] = [plain, drafted].map(|sequence| {
                let fork = model.fork(sequence, len).unwrap();
                append(model, fork, &text[len..len + 2], Role::Generated, Wanted::All).unwrap()
            });
            assert_eq!(given, expected, "{len}");
        }
        let replayed = model.replayed_tokens() - before;
        assert!(replayed <= 2 * (at - 1 - 64) as u64, "{replayed}");
    });
}

/// Tests a pass of several pieces, in which some sequences wait for a later piece, and drafts lie at the
/// end of a piece.
#[test]
fn drafts_of_several_sequences_fit_pieces_of_any_length() {
    each_model(|model| {
        let wanted = Wanted::Each(&[None; 5]);
        for long in [253, 300] {
            let texts = [tokens(long, 1), tokens(5, 2), tokens(5, 3), tokens(40, 4)];
            let mut opened = Vec::new();
            for seed in 0..texts.len() {
                let sequence = model.open();
                append(model, sequence, &tokens(60 + seed, seed), Role::Prompt, Wanted::Nothing).unwrap();
                // Its last pass had four drafts. None, two or all of them remain.
                let run = Run { sequence, tokens: &tokens(5, 7), role: Role::Generated, wanted };
                model.forward(&Batch { runs: vec![run] }).unwrap();
                model.truncate(sequence, 61 + 2 * seed.min(2) + seed).unwrap();
                let alone = model.fork(sequence, 61 + 2 * seed.min(2) + seed).unwrap();
                opened.push((sequence, alone));
            }
            let runs = opened.iter().zip(&texts).map(|(&(sequence, _), tokens)| Run {
                sequence,
                tokens,
                role: Role::Generated,
                wanted,
            });
            let together = model.forward(&Batch { runs: runs.collect() }).unwrap();
            for (index, (&(sequence, alone), text)) in opened.iter().zip(&texts).enumerate() {
                let checked = text.len() - 5;
                if checked > 0 {
                    append(model, alone, &text[..checked], Role::Generated, Wanted::Nothing).unwrap();
                }
                for (row, token) in together.rows(index).iter().zip(&text[checked..]) {
                    let expected = append(model, alone, &[*token], Role::Generated, Wanted::All).unwrap();
                    assert_eq!(*row, expected, "{long} tokens, run {index}");
                }
                let len = 61 + 2 * index.min(2) + index + checked + 2;
                let next = tokens(3, 8);
                let [given, expected] = [sequence, alone].map(|sequence| {
                    model.truncate(sequence, len).unwrap();
                    let replayed = model.replayed_tokens();
                    let row = append(model, sequence, &next, Role::Generated, Wanted::All).unwrap();
                    (row, model.replayed_tokens() - replayed)
                });
                assert_eq!(given.0, expected.0, "{long} tokens, run {index}");
                assert_eq!(given.1, 0, "{long} tokens, run {index}");
                for sequence in [sequence, alone] {
                    model.close(sequence);
                }
            }
        }
    });
}

#[test]
fn a_prompt_gives_the_same_bits_every_time() {
    each_model(|model| {
        let prompt = tokens(300, 6);
        let [first, second] = [(); 2].map(|()| model.open());
        let expected = append(model, first, &prompt, Role::Prompt, Wanted::All).unwrap();
        // A cut at the boundary of a piece does not change the result.
        append(model, second, &prompt[..256], Role::Prompt, Wanted::Nothing).unwrap();
        let given = append(model, second, &prompt[256..], Role::Prompt, Wanted::All).unwrap();
        assert_eq!(given, expected);
    });
}

/// Tests token counts around the size of a piece and beyond a span of attention, with one and two
/// sequences.
#[test]
fn a_pass_may_have_any_number_of_tokens() {
    each_model(|model| {
        for (first, second) in
            [(255, 1), (256, 0), (257, 0), (200, 88), (289, 0), (100, 189), (40, 250), (550, 9)]
        {
            let texts = [tokens(first, 3), tokens(second, 4)];
            let texts: Vec<_> = texts.iter().filter(|text| !text.is_empty()).collect();
            let wanted = [None; 34];
            let sequences: Vec<_> = texts.iter().map(|_| model.open()).collect();
            let runs = sequences.iter().zip(&texts).map(|(&sequence, tokens)| {
                let wanted = Wanted::Each(&wanted[..tokens.len().min(34)]);
                Run { sequence, tokens, role: Role::Prompt, wanted }
            });
            let given = model.forward(&Batch { runs: runs.collect() }).unwrap();
            for (index, text) in texts.iter().enumerate() {
                let alone = model.open();
                let (before, last) = text.split_at(text.len() - text.len().min(34));
                for piece in before.chunks(50) {
                    append(model, alone, piece, Role::Prompt, Wanted::Nothing).unwrap();
                }
                for (row, token) in last.iter().enumerate() {
                    let expected = append(model, alone, &[*token], Role::Generated, Wanted::All).unwrap();
                    assert_eq!(
                        given.rows(index)[row],
                        expected,
                        "{first} and {second}, run {index}, row {row}"
                    );
                }
                model.close(alone);
                model.close(sequences[index]);
            }
        }
    });
}

/// Tests forks that share a block and write to it in the same pass, together with a long run.
#[test]
fn forks_write_in_one_pass() {
    each_model(|model| {
        let prompt = tokens(70, 2);
        let parent = model.open();
        append(model, parent, &prompt, Role::Prompt, Wanted::Nothing).unwrap();
        let texts: Vec<_> =
            [1, 3, 2, 40, 1, 5].iter().enumerate().map(|(seed, &len)| tokens(len, seed)).collect();
        let [alone, together] = [(); 2].map(|()| -> Vec<_> {
            texts.iter().map(|_| model.fork(parent, prompt.len()).unwrap()).collect()
        });
        let runs = together.iter().zip(&texts);
        let runs = runs.map(|(&sequence, tokens)| Run {
            sequence,
            tokens,
            role: Role::Generated,
            wanted: Wanted::All,
        });
        let given = model.forward(&Batch { runs: runs.collect() }).unwrap();
        for (index, (&sequence, text)) in alone.iter().zip(&texts).enumerate() {
            let expected = append(model, sequence, text, Role::Generated, Wanted::All).unwrap();
            assert_eq!(given.row(index), expected, "fork {index}");
        }
    });
}

#[test]
fn a_sparse_head_equals_the_full_one_bit_by_bit() {
    each_model(|model| {
        let prompt = tokens(20, 7);
        let sequence = model.open();
        let full = append(model, sequence, &prompt, Role::Prompt, Wanted::All).unwrap();
        for step in [1, 2, 3, 5, 17, 95] {
            let mut set = TokenSet::empty(model.vocab_size());
            (3..model.vocab_size()).step_by(step).for_each(|token| set.insert(TokenId(token as u32)));
            model.truncate(sequence, 0).unwrap();
            let sparse = append(model, sequence, &prompt, Role::Prompt, Wanted::Only(&set)).unwrap();
            for (token, (sparse, full)) in sparse.iter().zip(&full).enumerate() {
                let expected = if set.contains(TokenId(token as u32)) { *full } else { f32::NEG_INFINITY };
                assert_eq!(sparse.to_bits(), expected.to_bits(), "token {token} of every {step}");
            }
        }
    });
}

/// Tests many prompts and sets. The adaptive share of the head that is read must not change
/// results.
#[test]
fn the_largest_logits_equal_those_of_the_full_head_bit_by_bit() {
    let left_out = AtomicUsize::new(0);
    each_model(|model| {
        for (seed, step) in (0..24).flat_map(|seed| [0, 1, 3, 17].map(|step| (seed, step))) {
            let prompt = tokens(5, seed);
            let mut set = TokenSet::empty(model.vocab_size());
            (3..model.vocab_size()).step_by(step.max(1)).for_each(|token| set.insert(TokenId(token as u32)));
            let set = Some(&set).filter(|_| step > 0);
            let sequence = model.open();
            let full = append(model, sequence, &prompt, Role::Prompt, Wanted::All).unwrap();
            let full = masked(full, set);
            model.truncate(sequence, 0).unwrap();
            let given = append(model, sequence, &prompt, Role::Generated, Wanted::Largest(set)).unwrap();
            model.close(sequence);
            let largest = full.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(given.len(), full.len());
            for (token, (given, full)) in given.iter().zip(&full).enumerate() {
                let is_same = given.to_bits() == full.to_bits();
                assert!(is_same || *given == f32::NEG_INFINITY && *full < largest, "token {token}");
                left_out.fetch_add(usize::from(!is_same), Ordering::Relaxed);
            }
        }
    });
    assert!(left_out.into_inner() > 0, "some logits are not computed");
}

/// Tests combinations of requests in one batch.
#[test]
fn the_largest_logits_beside_others_equal_those_of_the_full_head() {
    each_model(|model| {
        let set = |count: u32, step: u32| {
            let mut set = TokenSet::empty(model.vocab_size());
            (0..count).for_each(|token| set.insert(TokenId(step * token)));
            set
        };
        let (few, dense) = (set(1, 7), set(90, 1));
        let (some, all) = (Wanted::Only(&few), Wanted::Largest(None));
        let dense = Wanted::Largest(Some(&dense));
        for wanted in
            [vec![all, dense], vec![some, all], vec![some, dense, some], vec![dense, some, all, all]]
        {
            let sequences: Vec<_> = wanted.iter().map(|_| model.open()).collect();
            let texts: Vec<_> = (0..wanted.len()).map(|seed| tokens(3, 60 + seed)).collect();
            let runs = sequences.iter().zip(&texts).zip(&wanted);
            let runs = runs.map(|((&sequence, tokens), &wanted)| Run {
                sequence,
                tokens,
                role: Role::Generated,
                wanted,
            });
            let given = model.forward(&Batch { runs: runs.collect() }).unwrap();
            for (index, (text, wanted)) in texts.iter().zip(&wanted).enumerate() {
                model.truncate(sequences[index], 0).unwrap();
                let full = append(model, sequences[index], text, Role::Generated, Wanted::All).unwrap();
                let full = masked(full, wanted.rows()[0]);
                let largest = full.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                assert_eq!(given.row(index).len(), full.len());
                for (given, full) in given.row(index).iter().zip(&full) {
                    let is_left_out = matches!(wanted, Wanted::Largest(_)) && *full < largest;
                    let is_same = given.to_bits() == full.to_bits();
                    assert!(is_same || is_left_out && *given == f32::NEG_INFINITY, "{wanted:?}");
                }
                model.close(sequences[index]);
            }
        }
    });
}

/// Tests runs of different lengths and roles. In one batch they give the same results as alone.
#[test]
fn a_ragged_batch_gives_the_same_bits_as_its_runs_alone() {
    each_model(|model| {
        let texts: Vec<_> = [(1, 20), (7, 1), (0, 40), (3, 33), (30, 2)]
            .iter()
            .enumerate()
            .map(|(seed, &(before, len))| (tokens(before, 20 + seed), tokens(len, 30 + seed)))
            .collect();
        let roles = [Role::Generated, Role::Generated, Role::Prompt, Role::Generated, Role::Generated];
        let mut some = TokenSet::empty(model.vocab_size());
        (0..9).for_each(|token| some.insert(TokenId(7 * token)));
        let mut dense = TokenSet::empty(model.vocab_size());
        (0..90).for_each(|token| dense.insert(TokenId(token)));
        let wanted = [Wanted::All, Wanted::Only(&some), Wanted::All, Wanted::Nothing, Wanted::Only(&dense)];
        let open = |model: &mut dyn LanguageModel| -> Vec<_> {
            let open = |(before, _): &(Vec<TokenId>, _)| {
                let sequence = model.open();
                if !before.is_empty() {
                    append(model, sequence, before, Role::Prompt, Wanted::Nothing).unwrap();
                }
                sequence
            };
            texts.iter().map(open).collect()
        };
        let (alone, together) = (open(model), open(model));
        let runs = together.iter().zip(&texts).zip(roles).zip(wanted);
        let runs =
            runs.map(|(((&sequence, (_, tokens)), role), wanted)| Run { sequence, tokens, role, wanted });
        let given = model.forward(&Batch { runs: runs.collect() }).unwrap();
        for (index, &sequence) in alone.iter().enumerate() {
            let expected = append(model, sequence, &texts[index].1, roles[index], wanted[index]).unwrap();
            assert_eq!(given.row(index), expected, "run {index}");
            // The caches must be the same as well.
            let next = &tokens(1, 50);
            let [first, second] = [sequence, together[index]]
                .map(|sequence| append(model, sequence, next, Role::Generated, Wanted::All).unwrap());
            assert_eq!(first, second, "after run {index}");
        }
    });
}

#[test]
fn rejects_a_sequence_repeated_in_a_batch() {
    let tiny = tiny::tiny("llama", GgmlDType::Q8_0);
    let mut model = tiny::open(&tiny.file).unwrap().language_model();
    let sequence = model.open();
    let run = Run { sequence, tokens: &tokens(1, 1), role: Role::Generated, wanted: Wanted::All };
    let error = model.forward(&Batch { runs: vec![run, run] }).unwrap_err();
    assert_eq!(error.to_string(), "the batch contains sequence 0 more than once");
}

#[test]
fn a_run_without_requested_rows_returns_none() {
    let tiny = tiny::tiny("llama", GgmlDType::Q8_0);
    let mut model = tiny::open(&tiny.file).unwrap().language_model();
    let sequence = model.open();
    assert!(append(&mut *model, sequence, &tokens(3, 1), Role::Prompt, Wanted::Nothing).unwrap().is_empty());
}

#[test]
fn errors_name_the_fault() {
    let tiny = tiny::tiny("llama", GgmlDType::F32);
    let opened =
        tiny::open_with(&tiny.file, OpenOptions { context: Some(50), ..OpenOptions::default() }).unwrap();
    assert_eq!(opened.context_len(), 50);
    let beyond =
        tiny::open_with(&tiny.file, OpenOptions { context: Some(1 << 20), ..OpenOptions::default() })
            .unwrap();
    assert_eq!(beyond.context_len(), CONTEXT);
    let mut model = opened.language_model();
    let sequence = model.open();
    let mut try_run = |sequence, tokens: &[TokenId]| {
        append(&mut *model, sequence, tokens, Role::Prompt, Wanted::All).unwrap_err().to_string()
    };
    assert_eq!(try_run(sequence, &tokens(51, 1)), "51 tokens exceed the context length of 50");
    let outside = [TokenId(VOCABULARY as u32)];
    assert_eq!(try_run(sequence, &outside), "token 200 is out of range (vocabulary size 200)");
    model.close(sequence);
    let closed = append(&mut *model, sequence, &tokens(1, 1), Role::Prompt, Wanted::All);
    assert_eq!(closed.unwrap_err().to_string(), "sequence 0 is not open");
    assert!(model.truncate(sequence, 0).is_err());
}

#[test]
fn a_model_reports_its_properties() {
    let tiny = tiny::tiny("qwen3", GgmlDType::Q8_0);
    let model = tiny::open(&tiny.file).unwrap();
    assert_eq!(model.name(), "Tiny");
    assert_eq!(model.spec().unwrap().architecture, "qwen3");
    assert_eq!(model.chat_template(), Some(tiny::TEMPLATE));
    assert_eq!(model.checkpoint().byte_len(), tiny.file.len());
    assert_eq!(model.parameters(), tiny.weights.values().map(|values| values.len() as u64).sum::<u64>());
    assert_eq!(model.tokenizer().unwrap().vocabulary().len(), 3);
    assert_eq!(model.language_model().vocab_size(), VOCABULARY);
}

#[test]
fn a_template_writes_the_first_and_last_token_and_the_given_year() {
    let model = tiny::open(&tiny::tiny("qwen3", GgmlDType::Q8_0).file).unwrap();
    let tokenizer = model.tokenizer().unwrap();
    let input = ChatInput { messages: vec![Message::new("user", "Hi")], ..ChatInput::default() };
    for (now, expected) in [(None, "aHib 2025"), (Some(SystemTime::UNIX_EPOCH), "aHib 1970")] {
        let template = model.compile_template(&tokenizer, now).unwrap();
        assert_eq!(template.render(&input).unwrap(), expected);
    }
}
