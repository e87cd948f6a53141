"""Output tokens per second under the standard schemas: Formwork's beside llama.cpp's server, with its grammar and without.

    python3 structured.py --formwork PROGRAM --server "llama-server" [--environment NAME=VALUE] -m MODEL.gguf MASKBENCH

The schemas are those of `../../standard.py`. Formwork takes forced tokens and computes the rows of the head that a mask allows
(`bench decode --schema`); the server gets the schema as `json_schema`, and its free decode is measured after each. Both are
greedy and write 128 tokens at most, with two threads. The server listens on loopback and is stopped at the end.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from standard import GROUPS, standard  # noqa: E402

PROMPT = "Answer with JSON that is an example of what is asked for."


class Server:
    """llama.cpp's, on one model."""

    def __init__(self, options):
        self.url = f"http://127.0.0.1:{options.port}"
        command = [*shlex.split(options.server), "-m", options.model, "--port", str(options.port), "-t", str(options.threads)]
        command += ["-c", "2048", "-np", "1", "-fa", "on"]
        environment = dict(os.environ, **dict(pair.split("=", 1) for pair in options.environment))
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=options.folder
        )
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=1)
                return
            except OSError:
                time.sleep(0.2)
        raise SystemExit("the server does not answer")

    def rate(self, schema=None):
        """Tokens a second, or why there are none."""
        body = {"prompt": PROMPT, "n_predict": 128, "temperature": 0, "cache_prompt": False, "ignore_eos": schema is None}
        if schema is not None:
            body["json_schema"] = schema
        request = urllib.request.Request(
            f"{self.url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            answer = json.load(urllib.request.urlopen(request, timeout=120))
        except urllib.error.HTTPError as error:
            return None, error.read().decode(errors="replace")[:120]
        return answer["timings"]["predicted_per_second"], answer["timings"]["predicted_n"]


def ours(options, schema):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(schema, file)
        file.flush()
        command = [options.formwork, "bench", "decode", "-m", options.model, "-r", "3", "-n", "128"]
        done = subprocess.run([*command, "--schema", file.name, "--json", "-"], capture_output=True, text=True)
    if done.returncode:
        return None
    return json.loads(done.stdout)["shaped"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formwork", required=True)
    parser.add_argument("--server", required=True, help="llama-server, with what has to stand before it")
    parser.add_argument("--environment", action="append", default=[], metavar="NAME=VALUE", help="for the server")
    parser.add_argument("--folder", help="where the server is started")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--port", type=int, default=8391)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("maskbench")
    options = parser.parse_args()
    server = Server(options)
    try:
        for group in GROUPS:
            rows = []
            for path in standard(options.maskbench, group):
                schema = json.loads(path.read_text())["schema"]
                shaped, (grammar, told), (free, _) = ours(options, schema), server.rate(schema), server.rate()
                rows.append((shaped, grammar, free))
                rates = [f"{rate:.1f}" if rate else "-" for rate in rows[-1]]
                print(f"{path.name}: Formwork {rates[0]}, llama.cpp {rates[1]} ({told}), free {rates[2]}", flush=True)
            for name, other in (("its grammar", 1), ("free", 2)):
                ratios = [row[0] / row[other] for row in rows if row[0] and row[other]]
                print(
                    f"{group}: over llama.cpp, {name}: median {statistics.median(ratios):.2f}, least {min(ratios):.2f},"
                    f" greatest {max(ratios):.2f}, of {len(ratios)}"
                )
    finally:
        server.process.terminate()
        server.process.wait()


if __name__ == "__main__":
    main()
