"""Writes splits.json: a text, and the words into which each tokenizer splits it.

The expressions are those of the models' own files: `tokenizer.json`, `tekken.json` for Mistral, and the
tokenizer's code for Kimi. The `regex` package runs them, so an engine other than Formwork's decides.

    pip install regex && python splits.py
"""

import json
import pathlib

import regex

ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def cased(upper, lower, ending):
    """Returns the alternatives for words that end where lower case is followed by upper case."""
    before = r"[^\r\n\p{L}\p{N}]?"
    return f"{before}[{upper}]*[{lower}]+{ending}|{before}[{upper}]+[{lower}]*{ending}|"


GPT4O = cased(UPPER, LOWER, ENDINGS + "?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL
HAN = "&&[^\\p{Han}]"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
PUNCTUATED = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
    + TAIL
)

EXPRESSIONS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [LLAMA3],
    "glm4": [LLAMA3],
    "lfm2": [LLAMA3],
    "qwen2": [LLAMA3.replace("{1,3}", "")],
    "qwen35": [
        ENDINGS
        + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
        + TAIL
    ],
    "gpt-4o": [GPT4O],
    "minimax-m2": [GPT4O],
    "tekken": [cased(UPPER, LOWER, "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL],
    "kimi-k2": [
        r"[\p{Han}]+|"
        + cased(UPPER + HAN, LOWER + HAN, ENDINGS + "?")
        + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        + TAIL
    ],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", PUNCTUATED],
    "seed-coder": [
        ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|" + TAIL
    ],
    "bailingmoe": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    ],
    "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O],
    "gemma4": [r"[^\n]+|[\n]+"],
}

TEXT = (
    "Hello, World! HTTPServer's don't WE'LL I'VE it'd camelCase ÉCOLE naïve\n"
    "1 12 123 1234567 3.14 1,000 x86_64 ٣٤٥ ½ Ⅷ  two  spaces\ttab \n\n  \n"
    "if (a != b) { return c[0]; } // ok/\r\n\tpath/to/file.rs --flag=value $9.99 \"quoted\" <|im_end|> ...\n\n\n"
    "日本語のテキスト、カタカナ。中文字符ABC混合123漢字 中文 한국어 텍스트 々〇\n"
    "Привет, МирТест кириллица ΑΒΓ αβγ עברית شكراً لك हिन्दी में नमस्ते ภาษาไทย বাংলা e\u0301te\u0301\n"
    "😀👍🏽 ∑ ≠ → ©   \u00a0nbsp\u3000wide ends with spaces   "
)


def split(expressions):
    """Returns the words: each expression splits the pieces of the one before at its matches."""
    pieces = [TEXT]
    for expression in expressions:
        # Intersections of classes need the newer syntax. It folds case in more ways, so only Kimi uses it.
        version = regex.VERSION1 if "&&" in expression else regex.VERSION0
        finer = []
        for piece in pieces:
            done = 0
            for match in regex.finditer(expression, piece, flags=version):
                finer += [piece[done : match.start()], match[0]]
                done = match.end()
            finer.append(piece[done:])
        pieces = [piece for piece in finer if piece]
    return pieces


def main():
    words = {name: "\u241e".join(split(expressions)) for name, expressions in EXPRESSIONS.items()}
    path = pathlib.Path(__file__).with_name("splits.json")
    path.write_text(json.dumps({"text": TEXT, "words": words}, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
