"""Generate text in exactly the shape you specify.

A [`Grammar`][formwork.Grammar] is compiled from a JSON Schema, GBNF, Lark, a regular expression, choices or
structural tags. A [`Constraint`][formwork.Constraint] binds it to a vocabulary. A
[`Matcher`][formwork.Matcher] follows one output and computes the tokens that may come next.

```python
import formwork

vocabulary = formwork.Vocabulary([bytes([byte]) for byte in range(256)] + [b""], ends=[256])
grammar = formwork.Grammar.json_schema({"enum": ["yes", "no"]})
matcher = formwork.Constraint(grammar, vocabulary).matcher()
bitmask = formwork.allocate_bitmask(1, len(vocabulary))
formwork.fill_bitmask(matcher, bitmask)
assert matcher.allowed() == [ord('"')]
matcher.commit(ord('"'))
assert bytes(matcher.allowed()) == b"ny"
```
"""

from formwork._errors import ApiError, OptionError
from formwork._native import (
    Adapter,
    Constraint,
    Fields,
    FormworkError,
    Grammar,
    GrammarError,
    Matcher,
    NotAllowedError,
    Tokenizer,
    Vocabulary,
    VocabularyError,
    __version__,
)
from formwork.bitmask import allocate_bitmask, apply_bitmask, fill_bitmask, fill_bitmasks
from formwork.model import Model
from formwork.protocols import adapt, parse_directives, repair, run_directives
from formwork.server import Server

__all__ = [
    "Adapter",
    "ApiError",
    "Constraint",
    "Fields",
    "FormworkError",
    "Grammar",
    "GrammarError",
    "Matcher",
    "Model",
    "NotAllowedError",
    "OptionError",
    "Server",
    "Tokenizer",
    "Vocabulary",
    "VocabularyError",
    "__version__",
    "adapt",
    "allocate_bitmask",
    "apply_bitmask",
    "fill_bitmask",
    "fill_bitmasks",
    "parse_directives",
    "repair",
    "run_directives",
]
