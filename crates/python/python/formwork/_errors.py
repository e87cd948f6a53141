"""The exceptions of the package."""

from __future__ import annotations


class FormworkError(Exception):
    """Base class of all errors of this package."""


class GrammarError(FormworkError, ValueError):
    """A grammar that is malformed, or that cannot be enforced exactly."""

    def __init__(
        self,
        message: str,
        *,
        pointer: str | None = None,
        keyword: str | None = None,
        line: int | None = None,
        column: int | None = None,
        excerpt: str | None = None,
        over_limit: bool = False,
        unsatisfiable: bool = False,
    ) -> None:
        super().__init__(message)
        self.pointer = pointer
        """JSON pointer of the place in the schema."""
        self.keyword = keyword
        """Keyword of the schema that the error is about."""
        self.line = line
        """Line in a GBNF or Lark source, starting at 1."""
        self.column = column
        """Column in a GBNF or Lark source, starting at 1."""
        self.excerpt = excerpt
        """The source line with a caret under the column."""
        self.over_limit = over_limit
        """True if the grammar exceeds one of the limits."""
        self.unsatisfiable = unsatisfiable
        """True if the schema is valid and no value satisfies it."""


class VocabularyError(FormworkError, ValueError):
    """A vocabulary or tokenizer that cannot be used."""


class NotAllowedError(FormworkError, ValueError):
    """A token or text that the grammar does not allow at this position."""


class OptionError(FormworkError, ValueError):
    """An option or a definition that is unknown or wrong."""


class ApiError(FormworkError):
    """A request that a model did not answer."""

    def __init__(self, message: str, *, status: int, body: object, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        """The field of the request that the error is about, such as `response_format.json_schema.schema`."""
        self.status = status
        """The HTTP status, such as 400."""
        self.body = body
        """The body of the answer."""
