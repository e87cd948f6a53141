"""XGrammar's name for applying a bitmask."""

from __future__ import annotations

from formwork.compat.xgrammar.kernels._apply import (
    apply as apply_token_bitmask_inplace_torch_compile,
)

__all__ = ["apply_token_bitmask_inplace_torch_compile"]
