"""Objects as JSON texts with a version."""

from __future__ import annotations

import json
from typing import Any

from formwork.compat import _json
from formwork.compat.xgrammar.config import get_serialization_version
from formwork.compat.xgrammar.exception import (
    DeserializeFormatError,
    DeserializeVersionError,
    InvalidJSONError,
)

VERSION = "__VERSION__"


def dump(fields: dict[str, Any]) -> str:
    """Returns a JSON text with the fields and the version."""
    return json.dumps({**fields, VERSION: get_serialization_version()}, separators=(",", ":"))


def load(text: str, what: str, fields: tuple[str, ...]) -> dict[str, Any]:
    """Reads a text of [`dump`][formwork.compat.xgrammar._serialized.dump] that must have all `fields`.

    `what` names the object in errors.
    """
    read = _json.read(text, f"the serialized {what}", InvalidJSONError)
    if not isinstance(read, dict):
        raise DeserializeFormatError(f"a serialized {what} must be a JSON object")
    version = read.get(VERSION)
    if version != get_serialization_version():
        raise DeserializeVersionError(
            f"the serialized {what} has the version {version}, not {get_serialization_version()}"
        )
    for field in fields:
        if field not in read:
            raise DeserializeFormatError(f"the serialized {what} has no field `{field}`")
    return read
