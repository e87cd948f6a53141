"""XGrammar's interface: tokenizers, compilers and settings of version 0.2.8."""

from __future__ import annotations

import json
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from xgrammar_helpers import (
    PERSON,
    WORDS,
    accepts,
    allowed,
    info,
    xgr,
)

torch = pytest.importorskip("torch")
pydantic = pytest.importorskip("pydantic")
numpy = pytest.importorskip("numpy")
Grammar = xgr.Grammar


def test_finds_stop_and_special_tokens():
    given = info()
    assert (given.vocab_size, given.vocab_type) == (16, xgr.VocabType.RAW)
    assert given.stop_token_ids == [1]
    assert given.special_token_ids == [15]
    assert given.decoded_vocab == [word.encode() for word in WORDS]
    assert not given.add_prefix_space


@pytest.mark.parametrize(
    "name", ["</s>", "<|end_of_text|>", "<|eot_id|>", "<|endoftext|>", "<eos>", "<|eos|>", "<end_of_turn>"]
)
def test_finds_stop_tokens_by_name(name):
    assert info(["a", name]).stop_token_ids == [1]


def test_takes_given_stop_tokens():
    assert info(["a", "b", "</s>"], stop_token_ids=[1]).stop_token_ids == [1]
    assert info(["a", "b", "</s>"], stop_token_ids=0).stop_token_ids == [0]


@pytest.mark.parametrize(
    ("kind", "token", "text"),
    [
        ("RAW", "<0x0A>", b"<0x0A>"),
        ("RAW", b"\xff", b"\xff"),
        ("RAW", "\u2581a", b"\xe2\x96\x81a"),
        ("BYTE_FALLBACK", "<0x0A>", b"\n"),
        ("BYTE_FALLBACK", "<0x1>", b"<0x1>"),
        ("BYTE_FALLBACK", "\u2581a\u2581b", b" a b"),
        ("BYTE_FALLBACK", "\u65e5", "\u65e5".encode()),
        ("BYTE_LEVEL", "\u0120b", b" b"),
        ("BYTE_LEVEL", "\u010a", b"\n"),
        ("BYTE_LEVEL", "\u00c3\u00a9", b"\xc3\xa9"),
        ("BYTE_LEVEL", "a\u0120\u65e5", "a\u0120\u65e5".encode()),
    ],
)
def test_decodes_tokens(kind, token, text):
    assert xgr.TokenizerInfo([token], xgr.VocabType[kind]).decoded_vocab == [text]


def test_pads_the_vocabulary():
    given = info(["a", "b", "</s>"], vocab_size=40)
    assert given.vocab_size == 40
    assert given.special_token_ids == list(range(3, 40))
    assert len(given.decoded_vocab) == 3


def test_refuses_a_size_below_the_vocabulary():
    with pytest.raises(RuntimeError):
        info(["a", "b"], vocab_size=1)
    with pytest.raises(RuntimeError):
        info([1])


def test_an_empty_vocabulary_takes_texts():
    given = info([])
    assert (given.vocab_size, given.stop_token_ids, given.special_token_ids) == (0, [], [])
    found = xgr.GrammarMatcher(xgr.GrammarCompiler(given).compile_grammar('root ::= "a"'))
    assert not found.accept_token(0)
    assert found.accept_string("a")
    assert found.is_completed() and not found.is_terminated()


def test_metadata_makes_the_same_tokenizer():
    given = info(add_prefix_space=True, vocab_size=20)
    metadata = given.dump_metadata()
    assert json.loads(metadata) == {
        "vocab_type": 0, "vocab_size": 20, "add_prefix_space": True, "stop_token_ids": [1],
    }  # fmt: skip
    again = xgr.TokenizerInfo.from_vocab_and_metadata(WORDS, metadata)
    assert again.dump_metadata() == metadata
    assert again.decoded_vocab == given.decoded_vocab
    with pytest.raises(RuntimeError):
        xgr.TokenizerInfo.from_vocab_and_metadata(WORDS, "{}")
    with pytest.raises(RuntimeError):
        xgr.TokenizerInfo.from_vocab_and_metadata(WORDS, "{")


def test_serializes_a_tokenizer():
    given = info(["a", b"\xff\xfe", "", "</s>"])
    again = xgr.TokenizerInfo.deserialize_json(given.serialize_json())
    assert again.decoded_vocab == given.decoded_vocab
    assert again.stop_token_ids == [3]
    assert again.special_token_ids == [2]


@pytest.mark.parametrize("kind", [xgr.TokenizerInfo, xgr.Grammar])
def test_refuses_other_serialized_objects(kind):
    with pytest.raises(xgr.InvalidJSONError):
        kind.deserialize_json("{")
    with pytest.raises(xgr.DeserializeVersionError):
        kind.deserialize_json("{}")
    with pytest.raises(xgr.DeserializeVersionError):
        kind.deserialize_json('{"__VERSION__": "0"}')
    with pytest.raises(xgr.DeserializeFormatError):
        kind.deserialize_json(json.dumps({"__VERSION__": xgr.get_serialization_version()}))


def test_prepend_space_is_deprecated():
    with pytest.warns(UserWarning):
        assert not info().prepend_space_in_tokenization


@pytest.fixture(scope="module")
def byte_level_tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    model.train_from_iterator(['{"name": "abc", "age": 12}'] * 4, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, bos_token="<s>", eos_token="</s>")


def test_reads_a_tokenizer_of_transformers(byte_level_tokenizer):
    given = xgr.TokenizerInfo.from_huggingface(byte_level_tokenizer)
    assert given.vocab_type is xgr.VocabType.BYTE_LEVEL
    assert given.stop_token_ids == [byte_level_tokenizer.eos_token_id]
    ids = byte_level_tokenizer.encode('{"name": "\u00e9"}', add_special_tokens=False)
    assert b"".join(given.decoded_vocab[token] for token in ids) == '{"name": "\u00e9"}'.encode()
    padded = xgr.TokenizerInfo.from_huggingface(byte_level_tokenizer, vocab_size=320, stop_token_ids=[0, 1])
    assert (padded.vocab_size, padded.stop_token_ids) == (320, [0, 1])
    with pytest.raises(ValueError):
        xgr.TokenizerInfo.from_huggingface(byte_level_tokenizer, stop_token_ids=[])
    with pytest.raises(ValueError):
        xgr.TokenizerInfo.from_huggingface(object())


def test_follows_a_text_of_a_real_tokenizer(byte_level_tokenizer):
    given = xgr.TokenizerInfo.from_huggingface(byte_level_tokenizer)
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    }
    found = xgr.GrammarMatcher(xgr.GrammarCompiler(given).compile_json_schema(schema))
    for token in byte_level_tokenizer.encode('{"name": "x\u00e9y", "age": 12}', add_special_tokens=False):
        assert token in allowed(found, given.vocab_size)
        assert found.accept_token(token)
    assert byte_level_tokenizer.eos_token_id in allowed(found, given.vocab_size)
    assert found.accept_token(byte_level_tokenizer.eos_token_id)
    assert found.is_terminated()


def test_compilers_keep_grammars():
    compiler = xgr.GrammarCompiler(info())
    assert compiler.cache_limit_bytes == -1
    assert compiler.get_cache_size_bytes() == 0
    compiler.compile_json_schema(PERSON)
    size = compiler.get_cache_size_bytes()
    assert size > 0
    compiler.compile_json_schema(PERSON)
    assert compiler.get_cache_size_bytes() == size
    compiler.compile_regex("a+")
    compiler.compile_builtin_json_grammar()
    assert compiler.get_cache_size_bytes() > size
    full = compiler.get_cache_size_bytes()
    compiler.clear_cache()
    assert compiler.get_cache_size_bytes() < full


def test_compilers_without_a_cache():
    compiler = xgr.GrammarCompiler(info(), cache_enabled=False)
    compiler.compile_json_schema(PERSON)
    assert compiler.get_cache_size_bytes() == 0


def test_the_cache_has_a_limit():
    compiler = xgr.GrammarCompiler(info(), cache_limit_bytes=20_000)
    assert compiler.cache_limit_bytes == 20_000
    for number in range(30):
        compiler.compile_json_schema({"const": f"value {number}"})
    assert compiler.get_cache_size_bytes() <= 20_000
    with pytest.raises(RuntimeError):
        xgr.GrammarCompiler(info(), cache_limit_bytes=-2)


def test_compiled_grammars_know_their_parts():
    given = info()
    compiled = xgr.GrammarCompiler(given).compile_json_schema('{"type": "integer"}')
    assert accepts(compiled.grammar, "12")
    assert compiled.tokenizer_info.vocab_size == given.vocab_size
    assert compiled.memory_size_bytes > 0


def test_serializes_compiled_grammars():
    given = info()
    compiled = xgr.GrammarCompiler(given).compile_grammar('root ::= "a"')
    again = xgr.CompiledGrammar.deserialize_json(compiled.serialize_json(), given)
    assert xgr.GrammarMatcher(again).accept_token(2)
    with pytest.raises(xgr.DeserializeFormatError):
        xgr.CompiledGrammar.deserialize_json(compiled.serialize_json(), info(["a"]))
    with pytest.raises(xgr.InvalidJSONError):
        xgr.CompiledGrammar.deserialize_json("{", given)


def test_checks_the_arguments_of_compilers():
    with pytest.raises(ValueError):
        xgr.GrammarCompiler(None)
    with pytest.raises(ValueError):
        xgr.GrammarCompiler(info()).compile_grammar(3)
    with pytest.raises(ValueError):
        xgr.GrammarMatcher(None)


def test_compiles_in_several_threads():
    compiler = xgr.GrammarCompiler(info(), max_threads=2)
    schemas = [{"const": f"x{number % 5}"} for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        compiled = list(pool.map(compiler.compile_json_schema, schemas))
    for schema, grammar in zip(schemas, compiled):
        assert xgr.GrammarMatcher(grammar).accept_string(json.dumps(schema["const"]))


def test_recursion_depth():
    before = xgr.get_max_recursion_depth()
    with xgr.max_recursion_depth(100):
        assert xgr.get_max_recursion_depth() == 100
    assert xgr.get_max_recursion_depth() == before
    for depth in (0, -1, 10_000_000):
        with pytest.raises(RuntimeError):
            xgr.set_max_recursion_depth(depth)


def test_the_logits_processor():
    pytest.importorskip("transformers")
    compiled = xgr.GrammarCompiler(info()).compile_grammar('root ::= "a" "6"')
    processor = xgr.contrib.hf.LogitsProcessor(compiled)
    for tokens, expected in (([[9], [9]], [2, 2]), ([[9, 2], [9, 2]], [10, 10]), ([[9, 2, 10]] * 2, [1, 1])):
        scores = processor(torch.tensor(tokens), torch.zeros((2, 16)))
        assert scores.argmax(dim=-1).tolist() == expected
        assert torch.isinf(scores).sum().item() == 30
    with pytest.raises(RuntimeError):
        processor(torch.tensor([[9]]), torch.zeros((1, 16)))


def test_generates_with_transformers(byte_level_tokenizer):
    transformers = pytest.importorskip("transformers")
    size = len(byte_level_tokenizer)
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=size + 3, n_positions=128, n_embd=16, n_layer=1, n_head=2)
    model = transformers.GPT2LMHeadModel(config)
    given = xgr.TokenizerInfo.from_huggingface(byte_level_tokenizer, vocab_size=config.vocab_size)
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}
    compiled = xgr.GrammarCompiler(given).compile_json_schema(schema, any_whitespace=False)
    prompt = torch.tensor([byte_level_tokenizer.encode("abc")] * 2)
    output = model.generate(
        prompt,
        max_new_tokens=60,
        do_sample=True,
        pad_token_id=0,
        eos_token_id=byte_level_tokenizer.eos_token_id,
        logits_processor=[xgr.contrib.hf.LogitsProcessor(compiled)],
    )
    for row in output:
        text = byte_level_tokenizer.decode(row[prompt.shape[1] :], skip_special_tokens=True)
        assert json.loads(text)["a"] in ("x", "y")


@pytest.mark.ours
def test_a_forbidden_token_is_an_error_of_the_logits_processor():
    pytest.importorskip("transformers")
    compiled = xgr.GrammarCompiler(info()).compile_grammar('root ::= "a"')
    processor = xgr.contrib.hf.LogitsProcessor([compiled])
    processor(torch.tensor([[9]]), torch.zeros((1, 16)))
    with pytest.raises(RuntimeError, match="token 10 of sequence 0"):
        processor(torch.tensor([[9, 10]]), torch.zeros((1, 16)))


def test_the_public_names():
    names = """exception structural_tag testing CompiledGrammar GrammarCompiler get_max_recursion_depth
    get_serialization_version max_recursion_depth set_max_recursion_depth hf DeserializeFormatError
    DeserializeVersionError InvalidJSONError InvalidStructuralTagError Grammar StructuralTagItem
    BatchGrammarMatcher GrammarMatcher allocate_token_bitmask apply_token_bitmask_inplace bitmask_dtype
    get_bitmask_shape reset_token_bitmask StructuralTag TokenizerInfo VocabType get_model_structural_tag
    normalize_tool_choice register_model_structural_tag get_builtin_structural_tag""".split()
    for name in names:
        assert getattr(xgr, name) is not None
    assert set(names) <= set(xgr.__all__)
    assert xgr.matcher.bitmask_dtype == torch.int32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert issubclass(xgr.InvalidStructuralTagError, RuntimeError)
