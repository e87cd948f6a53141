"""The server as a process of its own."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import threading
from collections import deque
from types import TracebackType
from typing import Any

from formwork._errors import FormworkError
from formwork.model import _arguments

__all__ = ["Server"]


class Server:
    """`formwork serve` in a process of its own, for as long as a `with` block.

    ```python
    with formwork.Server("smollm2-135m-instruct") as server:
        client = openai.OpenAI(base_url=server.url, api_key="none")
    ```
    """

    def __init__(self, model: str | os.PathLike[str] | None = None, *, timeout: float = 600.0, **options: Any) -> None:
        """Prepares a server. The process starts with the `with` block, or with `start`.

        `options` are those of `formwork serve`, as for [`Model`][formwork.Model]. `timeout` limits the time
        until the model is loaded, in seconds.
        """
        options = {"port": 0, **options}
        arguments = [] if model is None else ["--model", str(model)]
        for name, value in options.items():
            arguments += _arguments(f"--{name.replace('_', '-')}", value)
        self._command = [sys.executable, "-m", "formwork", "serve", *arguments]
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._lines: deque[str] = deque(maxlen=50)
        self._found = threading.Event()
        self._url: str | None = None

    @property
    def url(self) -> str:
        """The base URL for OpenAI's clients, which ends in `/v1`."""
        if self._url is None:
            raise FormworkError("the server is not running")
        return self._url

    def start(self) -> Server:
        """Starts the process, and waits until the model is loaded. `close` stops it."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
        )
        # A program that ends without `close` takes its server with it.
        atexit.register(self.close)
        reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        reader.start()
        try:
            if not self._found.wait(self._timeout):
                raise FormworkError(f"the server did not start within {self._timeout} seconds (`timeout`)")
            if self._url is None:
                raise FormworkError("the server did not start: " + "\n".join(self._lines))
            self._wait_for_models()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stops the process. Running requests get some seconds to end."""
        atexit.unregister(self.close)
        process, self._process, self._url = self._process, None, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self._lines.append(line.rstrip())
            if found := re.search(r"serving .* on (http://\S+/v1)$", line.rstrip()):
                self._url = found[1]
                self._found.set()
        self._found.set()

    def _wait_for_models(self) -> None:
        import time
        import urllib.error
        import urllib.request

        limit = time.monotonic() + self._timeout
        health = self.url.removesuffix("/v1") + "/health"
        while time.monotonic() < limit:
            if self._process is None or self._process.poll() is not None:
                raise FormworkError("the server has ended: " + " / ".join(self._lines))
            try:
                with urllib.request.urlopen(health, timeout=5) as answer:
                    if answer.status == 200:
                        return
            except urllib.error.HTTPError:
                pass  # The model is being loaded.
            except OSError:
                pass
            time.sleep(0.05)
        raise FormworkError(f"the model was not loaded within {self._timeout} seconds")
