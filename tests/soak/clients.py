"""The clients of the soak: those that leave, those that want structure, those with tools, and those that mean harm."""

import asyncio
import json
import random
import time

import asks
from asks import Wrong
from connection import Connection, fetch, head, request

CHAT = "/v1/chat/completions"
# No answer may take longer, hostile or not.
PATIENCE = 120


class Busy(Exception):
    """The server has no room for the request."""


def check_error(response, statuses=range(400, 500)):
    """A refusal must be in OpenAI's shape, and the client's fault."""
    if response.status == 503:
        raise Busy
    if response.status not in statuses:
        raise Wrong(f"status {response.status}: {response.body[:200]!r}")
    error = asks.parse(response.body.decode())["error"]
    for name in ("message", "type", "param", "code"):
        if name not in error:
            raise Wrong(f"an error without {name}: {error}")
    if not isinstance(error["message"], str) or not isinstance(error["code"], str | None):
        raise Wrong(f"an error of another shape: {error}")


def check_answered(response):
    if response.status == 503:
        raise Busy
    if response.status != 200:
        raise Wrong(f"status {response.status}: {response.body[:300]!r}")
    return response.json()


async def leaver(server, rng):
    """Goes away: before the answer, at its start, in its midst; what came until then must be its own."""
    body, whole = asks.repeated_ask(rng, server.model)
    body["stream"] = rng.random() < 0.8
    async with Connection.open(server.address) as connection:
        await connection.write(request(CHAT, body, server.key))
        if not body["stream"] or rng.random() < 0.2:
            await asyncio.sleep(rng.random() * 2)
            return
        status, headers = await connection.start()
        if status == 503:
            raise Busy
        if status != 200:
            raise Wrong(f"status {status}")
        text, left = "", rng.randrange(0, 60)
        async for data in connection.events(headers):
            text += json.loads(data)["choices"][0]["delta"].get("content", "")
            left -= 1
            if left < 0:
                break
        if not whole.startswith(text):
            raise Wrong(f"{text!r} is not a part of {whole[:40]!r}")


async def structured(server, rng):
    """Wants structure, whole or streamed, and reads to the end."""
    body, check = rng.choice([asks.schema_ask, asks.schema_ask, asks.choice_ask])(rng, server.model)
    await complete(server, rng, body, check)


async def with_tools(server, rng):
    body, check = asks.tools_ask(rng, server.model)
    await complete(server, rng, body, check)


async def complete(server, rng, body, check):
    if rng.random() < 0.5:
        [choice] = check_answered(await server.ask(body))["choices"]
        check(choice["message"], choice["finish_reason"])
    else:
        check(*await streamed(server, body))


async def streamed(server, body):
    """The message and the reason that a stream adds up to."""
    content, calls, finish = "", [], None
    async with Connection.open(server.address) as connection:
        await connection.write(request(CHAT, {**body, "stream": True}, server.key))
        status, headers = await connection.start()
        if status != 200:
            refusal = b"".join([piece async for piece in connection.pieces(headers)])
            raise Busy if status == 503 else Wrong(f"status {status}: {refusal[:300]!r}")
        ended = False
        async for data in connection.events(headers):
            if ended := data == b"[DONE]":
                continue
            event = json.loads(data)
            if "error" in event:
                raise Wrong(f"the stream failed: {event}")
            for choice in event["choices"]:
                delta = choice["delta"]
                content += delta.get("content") or ""
                for call in delta.get("tool_calls", []):
                    if call["index"] == len(calls):
                        calls.append({"id": call["id"], "function": {"name": call["function"]["name"], "arguments": ""}})
                    calls[call["index"]]["function"]["arguments"] += call["function"].get("arguments", "")
                finish = choice["finish_reason"] or finish
        if not ended:
            raise Wrong("the stream ends without [DONE]")
    return {"content": content, "tool_calls": calls}, finish


async def stored(server, rng):
    """Continues stored responses, reads them again, and deletes some. A response may have made room for newer ones."""
    previous = None
    for _ in range(rng.randrange(2, 5)):
        word = asks.word(rng)
        body = {
            "model": server.model,
            "input": f"Say {word}.",
            "text": {"format": {"type": "json_schema", "name": "w", "schema": {"const": word}}},
            "max_output_tokens": 48,
            "previous_response_id": previous,
        }
        answered = await server.ask(body, path="/v1/responses")
        if answered.status == 400 and previous:
            check_error(answered)
            if answered.json()["error"]["code"] != "previous_response_not_found":
                raise Wrong(f"not continued: {answered.body[:300]!r}")
            return
        answered = check_answered(answered)
        [item] = answered["output"]
        if item["content"][0]["text"] != json.dumps(word) or answered["previous_response_id"] != previous:
            raise Wrong(f"expected {word}, got {answered}")
        previous = answered["id"]
    path = f"/v1/responses/{previous}"
    again = await server.get(path)
    if again.status != 404 and again.json() != answered:
        raise Wrong(f"another response came back: {again.body[:300]!r}")
    if rng.random() < 0.3:
        gone = await fetch(server.address, path, key=server.key, method="DELETE")
        if gone.status not in (200, 404):
            raise Wrong(f"not deleted: {gone.body[:300]!r}")


async def hostile(server, rng):
    """One of the ways to do harm, by name, so that the report tells which."""
    name, way = rng.choice(list(WAYS.items()))
    try:
        await way(server, rng)
    except (ConnectionError, asyncio.IncompleteReadError):
        # To be cut off is an answer, too, where the request was not HTTP at all.
        if name not in MAY_BE_CUT_OFF:
            raise Wrong(f"{name}: cut off") from None
    except Wrong as wrong:
        raise Wrong(f"{name}: {wrong}") from None


def raw(make, statuses=range(400, 500)):
    """A request of bytes that must be refused."""

    async def way(server, rng):
        async with Connection.open(server.address) as connection:
            await connection.write(make(server, rng))
            check_error(await connection.response(), statuses)

    return way


def broken(make):
    """What is not HTTP may be refused without a body, or cut off."""

    async def way(server, rng):
        async with Connection.open(server.address) as connection:
            await connection.write(make(server, rng))
            status, _ = await connection.start()
            if not 400 <= status < 500:
                raise Wrong(f"status {status}")

    return way


def body(make, statuses=range(400, 500)):
    """A whole request whose body must be refused."""
    return raw(lambda server, rng: request(CHAT, make(server, rng), server.key), statuses)


def asking(**fields):
    """An ordinary request with something in it that must be refused."""
    return body(lambda server, _: {"model": server.model, "messages": asks.say("Hi"), "max_tokens": 8, **fields})


def schema(schema):
    return asking(response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema}})


def nested(depth, opening, closing):
    return lambda *_: b'{"model": ' + opening * depth + closing * depth + b"}"


async def slow_body(server, rng):
    """A byte now and then, and then no more."""
    async with Connection.open(server.address) as connection:
        await connection.write(head(CHAT, 500, key=server.key))
        for _ in range(rng.randrange(20)):
            await connection.write(b" ")
            await asyncio.sleep(0.3)


async def silent(server, rng):
    """A connection, and nothing on it."""
    async with Connection.open(server.address):
        await asyncio.sleep(rng.random() * 8)


async def half_closed(server, rng):
    """Says that it will send no more, and waits for the answer; it may be answered or cut off, but not kept."""
    question, check = asks.choice_ask(rng, server.model)
    async with Connection.open(server.address) as connection:
        await connection.write(request(CHAT, question, server.key))
        connection.writer.write_eof()
        [choice] = check_answered(await connection.response())["choices"]
        check(choice["message"], choice["finish_reason"])


async def pipelined(server, rng):
    """Three requests at once, the middle one wrong, must be answered in their order."""
    first, check_first = asks.choice_ask(rng, server.model)
    last, check_last = asks.choice_ask(rng, server.model)
    async with Connection.open(server.address) as connection:
        parts = [request(CHAT, part, server.key) for part in (first, {"model": 1}, last)]
        await connection.write(b"".join(parts))
        for check in (check_first, None, check_last):
            response = await connection.response()
            if check is None:
                check_error(response)
            else:
                [choice] = check_answered(response)["choices"]
                check(choice["message"], choice["finish_reason"])


async def reused(server, rng):
    """One request after the other on one connection, refused ones among them."""
    async with Connection.open(server.address) as connection:
        for place in range(4):
            question, check = asks.choice_ask(rng, server.model)
            await connection.write(request(CHAT, b"{" if place % 2 else question, server.key))
            response = await connection.response()
            if place % 2:
                check_error(response)
            else:
                [choice] = check_answered(response)["choices"]
                check(choice["message"], choice["finish_reason"])


async def unread(server, rng):
    """A stream that nobody reads for a while."""
    question, _ = asks.repeated_ask(rng, server.model)
    async with Connection.open(server.address) as connection:
        await connection.write(request(CHAT, question, server.key))
        await asyncio.sleep(rng.random() * 5)


def garbage(_, rng):
    return rng.randbytes(rng.randrange(1, 300))


def bad_utf8(server, _):
    return json.dumps({"model": server.model, "messages": asks.say("sea MARK")}).encode().replace(b"MARK", b"\xff\xc0\x80")


def huge(server, _):
    return json.dumps({"model": server.model, "messages": asks.say("x" * (9 << 20))}).encode()


def long_prompt(server, _):
    return {"model": server.model, "messages": asks.say("the sea " * 200_000), "max_tokens": 4}


def many_messages(server, _):
    return {"model": server.model, "messages": asks.say("hi") * 20_000, "max_tokens": 4}


def huge_chunks(server, _):
    """A body without a length that does not end."""
    start = head(CHAT, key=server.key, headers=["content-type: application/json", "transfer-encoding: chunked"])
    return start + (b"100000\r\n" + b" " * 0x100000 + b"\r\n") * 9


def bad_chunks(server, _):
    start = head(CHAT, key=server.key, headers=["content-type: application/json", "transfer-encoding: chunked"])
    return start + b"zz\r\nhello\r\n"


def two_lengths(server, _):
    return head(CHAT, 10, key=server.key, headers=["content-length: 20"]) + b"{}" * 10


def many_headers(server, _):
    return head(CHAT, 2, key=server.key, headers=[f"x-{place}: y" for place in range(300)]) + b"{}"


def long_header(server, _):
    return head(CHAT, 2, key=server.key, headers=["x: " + "y" * 200_000]) + b"{}"


def not_http(_, rng):
    return rng.randbytes(50) + b"\r\n\r\n"


def deep_schema(depth):
    inner = {"type": "integer"}
    for _ in range(depth):
        inner = {"type": "array", "items": inner}
    return inner


BIG_ENUM = {"enum": [f"value {place}" for place in range(200_000)]}
WAYS = {
    "garbage": body(garbage, [400]),
    "bad UTF-8": body(bad_utf8, [400]),
    "huge body": body(huge, [413]),
    "huge body in chunks": raw(huge_chunks, [413]),
    "long prompt": body(long_prompt, [400]),
    "many messages": body(many_messages, [400]),
    "deep arrays": body(nested(100_000, b"[", b"]"), [400]),
    "deep objects": body(nested(100_000, b'{"a":', b"}"), [400]),
    "not an object": body(lambda *_: [1, 2], [400]),
    "nothing": body(lambda *_: b"", [400]),
    "unknown constraint": asking(guided_frobnication=1),
    "many tokens": asking(max_tokens=-5),
    "huge seed": asking(seed=10**30),
    "not a number": body(lambda *_: b'{"model": "m", "messages": [], "temperature": NaN}', [400]),
    "long stops": asking(stop=["x"] * 10_000),
    "many choices": asking(n=10**9),
    "bad tokens": asking(logit_bias={str(place): 1 for place in range(10**6, 10**6 + 1000)}),
    "bad pattern": schema({"type": "string", "pattern": "(" * 5000}),
    "explosive pattern": schema({"type": "string", "pattern": "^(a|b)*a(a|b){40}$"}),
    "explosive regex": asking(guided_regex="((a{1,500}){1,500}){1,500}"),
    "explosive grammar": asking(grammar="root ::= a a\na ::= b b\n" + "b ::= [a-z]{1,9999}{1,9999}"),
    "endless grammar": asking(grammar="root ::= root"),
    "no value": schema({"allOf": [{"type": "string"}, {"type": "integer"}]}),
    "endless schema": schema({"$ref": "#"}),
    "many items": schema({"type": "array", "items": {"type": "integer"}, "minItems": 10**9}),
    "deep schema": schema(deep_schema(400)),
    "big enum": schema(BIG_ENUM),
    "missing document": schema({"$ref": "http://example.com/none.json"}),
    "file as document": schema({"$ref": "file:///etc/passwd"}),
    "file as model": body(lambda *_: {"model": "/etc/passwd", "messages": asks.say("hi")}, [404]),
    "bad chunks": broken(bad_chunks),
    "two lengths": broken(two_lengths),
    "many headers": broken(many_headers),
    "long header": broken(long_header),
    "not HTTP": broken(not_http),
    "slow body": slow_body,
    "silent": silent,
    "half-closed": half_closed,
    "pipelined": pipelined,
    "reused": reused,
    "unread": unread,
}
# What is not a request that a route was given: the connection's own errors have no body.
MAY_BE_CUT_OFF = {"bad chunks", "two lengths", "many headers", "long header", "not HTTP", "half-closed"}
KINDS = {"leave": leaver, "structure": structured, "tools": with_tools, "stored": stored, "hostile": hostile}


async def client(server, kind, number, until, tally):
    """Goes on until it is time, one request after the other."""
    rng = random.Random(f"{kind} {number}")
    while time.monotonic() < until:
        started = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                await KINDS[kind](server, rng)
            tally.passed(kind, time.monotonic() - started)
        except Busy:
            tally.busy(kind)
            await asyncio.sleep(1)
        except Exception as error:
            tally.failed(kind, number, error)
            await asyncio.sleep(0.1)
