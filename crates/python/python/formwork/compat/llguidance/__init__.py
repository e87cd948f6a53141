"""llguidance's interface on Formwork.

The names, arguments and results are those of llguidance 1.9.1. [`formwork.compat`][formwork.compat] lists what
differs. NumPy, PyTorch and transformers are needed by the modules of these names only.
"""

from __future__ import annotations

from typing import Literal

from formwork import _native
from formwork.compat.llguidance._compilers import (
    JsonCompiler,
    LarkCompiler,
    RegexCompiler,
    regex_to_lark,
)
from formwork.compat.llguidance._grammar import grammar_from
from formwork.compat.llguidance._interpreter import LLInterpreter
from formwork.compat.llguidance._matcher import LLExecutor, LLMatcher, LLParserLimits
from formwork.compat.llguidance._struct_tag import StructTag
from formwork.compat.llguidance._tokenizer import LLTokenizer, TokenizerWrapper

__all__ = [
    "GrammarFormat",
    "JsonCompiler",
    "LLExecutor",
    "LLInterpreter",
    "LLMatcher",
    "LLParserLimits",
    "LLTokenizer",
    "LarkCompiler",
    "RegexCompiler",
    "StructTag",
    "TokenizerWrapper",
    "__version__",
    "get_version",
    "grammar_from",
    "regex_to_lark",
]

__version__ = f"1.9.1+formwork.{_native.__version__}"

GrammarFormat = Literal[
    "lark", "gbnf", "ebnf", "cfg", "grammar", "json_schema", "json", "regex", "choice", "llguidance"
]
"""The formats of `grammar_from`."""


def get_version() -> str:
    """Returns the name and version of the package behind this interface."""
    return f"formwork@{_native.__version__}"
