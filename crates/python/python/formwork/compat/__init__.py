"""Interfaces of other packages for constrained decoding, on Formwork.

An engine that uses XGrammar 0.2.8 or llguidance 1.9.1 tries Formwork with another import:

```python
import formwork.compat.xgrammar as xgrammar
import formwork.compat.llguidance as llguidance
```

If the engine's code cannot be changed, [`install`][formwork.compat.install] gives a package the name of the
other, before the engine is imported. `docs/engines.md` describes vLLM and SGLang.

# What is there

`xgrammar` has tokenizers, grammars (EBNF, JSON Schema, regular expressions, Lark, structural tags, `concat` and
`union`), compilers with their caches, matchers, batches of matchers, draft trees, bitmasks, the classes of
structural tags, the logits processors in `contrib`, and the helpers in `testing`.

`llguidance` has tokenizers, matchers, interpreters, executors, tags, and the modules `numpy`, `torch`, `hf`,
`tiktoken` and `gbnf_to_lark`.

# What differs from both

- A grammar that Formwork cannot enforce exactly is refused. The error is a `GrammarError` and a `RuntimeError`
  with XGrammar's interface. With llguidance's interface, the matcher enters its error state.
- JSON Schema is enforced more completely. For example, `not`, `oneOf` and `uniqueItems` are enforced, and a
  name that is only `required` must occur.
- JSON may have any spelling that means the same value. Strings may have any escape, and an integer may be
  `1.0` or `1e2`. Members still come in their declared order.
- `\\d`, `\\w` and `\\s` in regular expressions are ASCII only.
- Limits of recursion and parsing, slices, and numbers of threads for compiling have no effect.
- Texts are UTF-8. A class of characters never matches a part of a character or a surrogate.

# What differs from XGrammar

- `max_whitespace_cnt`, indents other than 2, and separators other than `json.dumps` writes are refused.
- With `any_order`, required members must occur, and no member occurs twice.
- `ExcludeToken` with several tokens and `TokenTagDispatch` with several tokens are refused in EBNF.
- Serialized objects hold the source. They cannot be exchanged with XGrammar.
- `str(grammar)` is not the text that XGrammar prints. The helpers in `testing` that show rewritten grammars
  raise `NotImplementedError`.
- `get_model_structural_tag` knows only the functions that the caller registers.

# What differs from llguidance

- References to other grammars (`@name`), options of `%llguidance`, and attributes of rules such as `lazy`,
  `capture`, `max_tokens` and `temperature` are refused. The matcher's error names them.
- Lark is read without a lexer: a terminal may end wherever it matches, and not only at its longest match.
- The texts of `grammar_from` and `StructTag.to_grammar` are for this package only.
- `lenient` and `coerce_one_of` have no effect, because every keyword is enforced or refused.
- `LLInterpreter` takes nothing back, and its reports are short.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

__all__ = ["PACKAGES", "install", "uninstall"]

PACKAGES = ("llguidance", "xgrammar")
"""The packages whose interface Formwork has."""


def install(name: str) -> ModuleType:
    """Makes `import NAME` import Formwork's package with that interface.

    Call this before the other package is imported. The other package need not be installed. Raises
    `RuntimeError` if the other package has been imported already, because objects of both would mix.
    """
    if name not in PACKAGES:
        raise ValueError(f"unknown package {name!r}; expected one of {', '.join(PACKAGES)}")
    ours = importlib.import_module(f"{__name__}.{name}")
    present = sys.modules.get(name)
    if present is not None and present is not ours:
        raise RuntimeError(f"{name} has been imported already; call install before the first import")
    if not any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name))
    return importlib.import_module(name)


def uninstall(name: str) -> None:
    """Undoes [`install`][formwork.compat.install] for later imports."""
    sys.meta_path[:] = [
        finder for finder in sys.meta_path if not (isinstance(finder, _Finder) and finder.name == name)
    ]
    ours = f"{__name__}.{name}"
    for alias, module in list(sys.modules.items()):
        if alias.partition(".")[0] == name and module.__name__.startswith(ours):
            del sys.modules[alias]


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of a package under the name of another package."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name and not fullname.startswith(f"{self.name}."):
            return None
        ours = f"{__name__}.{fullname}"
        try:
            found = importlib.util.find_spec(ours)
        except ModuleNotFoundError:
            return None
        return None if found is None else importlib.machinery.ModuleSpec(fullname, _Loader(ours))


class _Loader(importlib.abc.Loader):
    """Loads a module that has another name, so that both names are one module."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.spec: Any = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has replaced the spec, which relative imports and reloads need.
        module.__spec__ = self.spec
