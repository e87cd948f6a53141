"""The server under test: started here, or running already; its memory and its metrics."""

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from connection import fetch


def arguments(description):
    """A parser of what all the tests here take."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="start this `formwork`")
    parser.add_argument("--url", help="or take the server that runs here, as http://127.0.0.1:8080")
    parser.add_argument("--pid", type=int, help="of the server at --url, to watch its memory")
    parser.add_argument("--key", help="the API key of the server at --url")
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--json", type=Path, help="write the report here")
    return parser


class Server:
    def __init__(self, url, model, key=None, pid=None):
        parts = urlsplit(url)
        self.address = (parts.hostname, parts.port)
        self.model, self.key, self.pid = model, key, pid

    @classmethod
    @contextlib.contextmanager
    def of(cls, options, *more):
        """The server that the command line asks for."""
        if options.url:
            yield cls(options.url, options.model, options.key, options.pid)
            return
        if not options.binary:
            sys.exit("give --binary or --url")
        key = "a-key-for-tests"
        with tempfile.TemporaryFile("w+") as log:
            command = [options.binary, "serve", "-m", options.model, "--port", "0", "--api-key", key, *more]
            process = subprocess.Popen(command, stderr=log)
            try:
                yield cls(wait_for_url(process, log), options.model, key, process.pid)
            finally:
                process.terminate()
                process.wait()

    async def get(self, path):
        return await fetch(self.address, path, key=self.key)

    async def ask(self, body, path="/v1/chat/completions"):
        return await fetch(self.address, path, body, self.key)

    def is_alive(self):
        return self.pid is None or status_line(self.pid, "State") not in (None, "Z (zombie)")

    def memory(self):
        """Megabytes that are resident."""
        if self.pid is None:
            return None
        return int((status_line(self.pid, "VmRSS") or "0").split()[0]) // 1024

    async def load(self):
        """What runs, waits and is cached; empty where the server has no metrics."""
        response = await self.get("/metrics")
        if response.status != 200:
            return {}
        wanted = r"^formwork_(requests_running|requests_waiting|prefix_cache_tokens|generations_failed_total)(?:\{.*\})? (\S+)"
        totals = {}
        for name, value in re.findall(wanted, response.body.decode(), re.MULTILINE):
            totals[name] = totals.get(name, 0) + float(value)
        return totals


def wait_for_url(process, log):
    while process.poll() is None:
        log.seek(0)
        if found := re.search(r"http://[0-9.:]+", log.read()):
            return found.group()
        time.sleep(0.05)
    log.seek(0)
    sys.exit(f"the server did not start: {log.read()}")


def status_line(pid, name):
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return None
    found = re.search(rf"^{name}:\s+(.*)$", text, re.MULTILINE)
    return found and found.group(1)
