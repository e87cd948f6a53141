"""A model in this process."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from formwork import _native
from formwork._errors import ApiError, FormworkError, GrammarError, OptionError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from formwork._fields import ChatFields

__all__ = ["Model"]

Messages = str | Sequence[Mapping[str, Any]]
"""A prompt, or the messages of a conversation in OpenAI's form."""

_OF_SOCKETS = ("host", "port", "no_page", "probe", "cors_origin", "api_key", "api_key_file")


class Model:
    """A model in this process, with the requests and answers of `formwork serve`.

    ```python
    with formwork.Model("smollm2-135m-instruct") as model:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        print(model.json("Describe a sailor.", schema, max_tokens=100))
        for piece in model.stream("Tell me about tides.", max_tokens=60):
            print(piece, end="", flush=True)
    ```

    Calls from several threads are answered together, in steps of all their tokens.
    """

    def __init__(self, model: str | os.PathLike[str] | None = None, **options: Any) -> None:
        """Loads a model: a file, a folder, a short name or a hub id. The default is a small model.

        `options` are those of `formwork serve`, with underscores: `ctx=4096` is `--ctx 4096`, `True` gives an
        option without a value, and a list repeats the option.
        """
        arguments = [] if model is None else ["--model", str(model)]
        for name, value in options.items():
            if name in _OF_SOCKETS:
                raise OptionError(f"`{name}` has no effect on a model in this process; it is an option of Server")
            arguments += _arguments(f"--{name.replace('_', '-')}", value)
        self._app = _native.App(arguments)
        models = _checked(*self._app.request("GET", "/v1/models"))
        self.name: str = models["data"][0]["id"]
        """The name of the model in requests."""

    def close(self) -> None:
        """Ends running requests, and frees the model."""
        self._app.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def generate(
        self,
        prompt: Messages,
        *,
        schema: Any = None,
        regex: str | None = None,
        gbnf: str | None = None,
        choices: Sequence[str] | None = None,
        **fields: Unpack[ChatFields],
    ) -> str:
        """Returns the text of the answer. The arguments are those of [`chat`][formwork.Model.chat].

        Raises `FormworkError` if the answer is calls of tools: use `chat` with tools.
        """
        if fields.get("n", 1) != 1:
            raise OptionError("`n`: a text is one answer; use `chat` for several")
        answer = self.chat(prompt, schema=schema, regex=regex, gbnf=gbnf, choices=choices, **fields)
        message = answer["choices"][0]["message"]
        if message.get("tool_calls") or message.get("function_call"):
            raise FormworkError("the answer is calls of tools; use `chat`")
        return message["content"] or ""

    def json(self, prompt: Messages, schema: Any, **fields: Unpack[ChatFields]) -> Any:
        """Returns the value of the answer, which matches `schema`.

        `schema` is a dict, or a Pydantic class: then the result is an instance.
        """
        text = self.generate(prompt, schema=schema, **fields)
        if isinstance(schema, type) and hasattr(schema, "model_validate_json"):
            return schema.model_validate_json(text)
        return json.loads(text)

    def stream(
        self,
        prompt: Messages,
        *,
        schema: Any = None,
        regex: str | None = None,
        gbnf: str | None = None,
        choices: Sequence[str] | None = None,
        **fields: Unpack[ChatFields],
    ) -> Iterator[str]:
        """Returns an iterator over the text of the answer while it is generated. The arguments are those of
        [`chat`][formwork.Model.chat].

        Errors are raised at the first step of the iterator. Raises `FormworkError` if the answer is calls of
        tools: use `chat_chunks` with tools.
        """
        if fields.get("n", 1) != 1:
            raise OptionError("`n`: a stream is one answer; use `chat_chunks` for several")
        chunks = self.chat_chunks(prompt, schema=schema, regex=regex, gbnf=gbnf, choices=choices, **fields)
        for chunk in chunks:
            for choice in chunk["choices"]:
                delta = choice["delta"]
                if delta.get("tool_calls") or delta.get("function_call"):
                    raise FormworkError("the answer is calls of tools; use `chat_chunks`")
                if text := delta.get("content"):
                    yield text

    def chat(
        self,
        prompt: Messages,
        *,
        schema: Any = None,
        regex: str | None = None,
        gbnf: str | None = None,
        choices: Sequence[str] | None = None,
        **fields: Unpack[ChatFields],
    ) -> dict[str, Any]:
        """Sends a chat request, and returns the body of the answer.

        The output matches `schema`, `regex`, `gbnf` or one of `choices`. `fields` are those of
        `POST /v1/chat/completions`, such as `max_tokens`, `temperature`, `tools` and `decisions`. Without
        `max_tokens`, an answer may fill the context. The default `temperature` is 1, as with OpenAI; 0 takes the
        likeliest tokens.

        Raises [`GrammarError`][formwork.GrammarError] if the constraint cannot be enforced, and
        [`ApiError`][formwork.ApiError] for all other errors.
        """
        if fields.get("stream"):
            raise OptionError("`stream`: use the method `stream` or `chat_chunks`")
        constraint = _constraint(schema, regex, gbnf, choices)
        with _grammar_errors(constraint):
            return self.request("/v1/chat/completions", _chat(prompt, {**constraint, **fields}))

    def chat_chunks(
        self,
        prompt: Messages,
        *,
        schema: Any = None,
        regex: str | None = None,
        gbnf: str | None = None,
        choices: Sequence[str] | None = None,
        **fields: Unpack[ChatFields],
    ) -> Iterator[dict[str, Any]]:
        """Sends a chat request, and returns an iterator over the chunks of the streamed answer.

        Raises the errors of [`chat`][formwork.Model.chat] at the first step of the iterator.
        """
        constraint = _constraint(schema, regex, gbnf, choices)
        body = _chat(prompt, {**constraint, **fields, "stream": True})
        with _grammar_errors(constraint):
            yield from self._chunks("/v1/chat/completions", body)

    def decide(self, **fields: Any) -> dict[str, Any]:
        """Answers typed questions with probabilities. `fields` are those of `POST /v1/decisions`."""
        return self.request("/v1/decisions", fields)

    def embed(self, texts: str | Sequence[str], **fields: Any) -> list[list[float]]:
        """Returns a vector for each text, if the model computes vectors."""
        answer = self.request("/v1/embeddings", {"input": texts, **fields})
        return [item["embedding"] for item in answer["data"]]

    def request(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Sends a request to any route of the server. Without a body it is a `GET` request.

        Raises [`ApiError`][formwork.ApiError] if the answer is an error.
        """
        if body is not None and "model" not in body:
            body = {"model": self.name, **body}
        method = "GET" if body is None else "POST"
        sent = None if body is None else json.dumps(body).encode()
        status, received = self._app.request(method, path, sent)
        return _checked(status, received)

    def _chunks(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        sent = json.dumps({"model": self.name, **body}).encode()
        pieces = self._app.stream("POST", path, sent)
        status = next(pieces)
        if status != 200:
            _checked(status, b"".join(pieces))
        pending = b""
        for piece in pieces:
            *events, pending = (pending + piece).split(b"\n\n")
            for event in events:
                data = event.removeprefix(b"data: ")
                if data != b"[DONE]" and event.startswith(b"data: "):
                    chunk = json.loads(data)
                    if "error" in chunk:
                        raise ApiError(str(chunk["error"].get("message")), status=500, body=chunk, param=None)
                    yield chunk


def _arguments(option: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if isinstance(value, (list, tuple)):
        return [argument for item in value for argument in _arguments(option, item)]
    return [option, str(value)]


def _chat(prompt: Messages, fields: dict[str, Any]) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    if isinstance(definition := fields.get("fields"), _native.Fields):
        fields = {**fields, "fields": definition.convert("json")}
    return {"messages": messages, **fields}


def _constraint(
    schema: Any, regex: str | None, gbnf: str | None, choices: Sequence[str] | None
) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if schema is not None:
        if hasattr(schema, "model_json_schema"):
            schema = schema.model_json_schema()
        elif isinstance(schema, str):
            schema = json.loads(schema)
        fields["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    if regex is not None:
        fields["guided_regex"] = regex
    if gbnf is not None:
        fields["grammar"] = gbnf
    if isinstance(choices, str):
        raise TypeError(f"`choices` is a list of texts, not one text: [{choices!r}]")
    if choices is not None:
        fields["guided_choice"] = list(choices)
    if len(fields) > 1:
        raise OptionError("an output has one constraint: one of schema, regex, gbnf and choices")
    return fields


@contextmanager
def _grammar_errors(constraint: Mapping[str, Any]) -> Iterator[None]:
    """Raises errors of the request that are about its constraint as `GrammarError`."""
    try:
        yield
    except ApiError as error:
        if error.param is not None and error.param.partition(".")[0] in constraint:
            # The server puts the place in a schema first, as in `#/properties/age: …`.
            place = re.match(r"#(/\S*): ", str(error))
            raise GrammarError(str(error), pointer=place and place[1]) from error
        raise


def _checked(status: int, received: bytes) -> Any:
    body = json.loads(received) if received else None
    if status >= 400:
        error = body.get("error") if isinstance(body, dict) else None
        message = error.get("message") if isinstance(error, dict) else received.decode(errors="replace")
        param = error.get("param") if isinstance(error, dict) else None
        raise ApiError(str(message), status=status, body=body, param=param)
    return body
