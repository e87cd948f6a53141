"""HTTP/1.1 as plainly as it goes, over asyncio's streams.

An HTTP library would take more time than the server that it tests, and would refuse to send what some of the clients here
send.
"""

import asyncio
import contextlib
import json
from dataclasses import dataclass


@dataclass
class Response:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


def head(path, length=None, method="POST", key=None, headers=()):
    """A request up to its body."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
    if length is not None:
        lines += ["content-type: application/json", f"content-length: {length}"]
    if key:
        lines.append(f"authorization: Bearer {key}")
    return "\r\n".join([*lines, *headers, "", ""]).encode()


def request(path, body, key=None):
    """A whole request with a JSON body, or with a body of bytes."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head(path, len(body), key=key) + body


class Connection:
    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, address):
        # The limit is that of a line: events of long answers.
        reader, writer = await asyncio.open_connection(*address, limit=16 << 20)
        try:
            yield cls(reader, writer)
        finally:
            writer.transport.abort()

    async def write(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def start(self):
        """Status and headers of the next response."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = (line.split(":", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.strip().lower(): value.strip() for name, value in fields}

    async def pieces(self, headers):
        """A body in the pieces in which it comes."""
        if headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                yield await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readuntil(b"\r\n")
        elif length := int(headers.get("content-length", 0)):
            yield await self.reader.readexactly(length)

    async def response(self):
        status, headers = await self.start()
        return Response(status, headers, b"".join([piece async for piece in self.pieces(headers)]))

    async def events(self, headers):
        """The data of server-sent events."""
        rest = b""
        async for piece in self.pieces(headers):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    yield line[5:].strip()
        assert not rest, "the stream ends within an event"


async def fetch(address, path, body=None, key=None, method="GET"):
    """One response on a connection of its own."""
    async with Connection.open(address) as connection:
        await connection.write(head(path, method=method, key=key) if body is None else request(path, body, key))
        return await connection.response()
