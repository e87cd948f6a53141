"""XGrammar's interface on Formwork.

The names, arguments and results are those of XGrammar 0.2.8. [`formwork.compat`][formwork.compat] lists what
differs. PyTorch, Pydantic and transformers are imported on first use only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from formwork.compat.xgrammar import exception
from formwork.compat.xgrammar.compiler import CompiledGrammar, GrammarCompiler
from formwork.compat.xgrammar.config import (
    get_max_recursion_depth,
    get_serialization_version,
    max_recursion_depth,
    set_max_recursion_depth,
)
from formwork.compat.xgrammar.exception import (
    DeserializeFormatError,
    DeserializeVersionError,
    InvalidJSONError,
    InvalidStructuralTagError,
    RefusedGrammar,
)
from formwork.compat.xgrammar.grammar import Grammar
from formwork.compat.xgrammar.matcher import (
    BatchGrammarMatcher,
    GrammarMatcher,
    allocate_token_bitmask,
    apply_token_bitmask_inplace,
    get_bitmask_shape,
    reset_token_bitmask,
)
from formwork.compat.xgrammar.tokenizer_info import TokenizerInfo, VocabType

if TYPE_CHECKING:
    from formwork.compat.xgrammar import contrib, structural_tag, testing
    from formwork.compat.xgrammar.contrib import hf
    from formwork.compat.xgrammar.structural_tag import StructuralTag, StructuralTagItem

__all__ = [
    "BatchGrammarMatcher",
    "CompiledGrammar",
    "DeserializeFormatError",
    "DeserializeVersionError",
    "Grammar",
    "GrammarCompiler",
    "GrammarMatcher",
    "InvalidJSONError",
    "InvalidStructuralTagError",
    "RefusedGrammar",
    "StructuralTag",
    "StructuralTagItem",
    "TokenizerInfo",
    "VocabType",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "bitmask_dtype",
    "contrib",
    "exception",
    "get_bitmask_shape",
    "get_builtin_structural_tag",
    "get_max_recursion_depth",
    "get_model_structural_tag",
    "get_serialization_version",
    "hf",
    "max_recursion_depth",
    "normalize_tool_choice",
    "register_model_structural_tag",
    "reset_token_bitmask",
    "set_max_recursion_depth",
    "structural_tag",
    "testing",
]

__version__ = "0.2.8"
"""The version of XGrammar that has the names of this package."""

LAZY = {
    "StructuralTag": "structural_tag",
    "StructuralTagItem": "structural_tag",
    "bitmask_dtype": "bitmask",
    "get_builtin_structural_tag": "builtin_structural_tag",
    "get_model_structural_tag": "builtin_structural_tag",
    "hf": "contrib",
    "normalize_tool_choice": "builtin_structural_tag",
    "register_model_structural_tag": "builtin_structural_tag",
}
"""Names whose module needs a package that is not always installed."""

MODULES = ("builtin_structural_tag", "contrib", "kernels", "structural_tag", "testing")


def __getattr__(name: str) -> Any:
    if name in LAZY:
        module = importlib.import_module(f"{__name__}.{LAZY[name]}")
        if name == "hf":
            return importlib.import_module(f"{module.__name__}.hf")
        return getattr(module, name)
    if name in MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
