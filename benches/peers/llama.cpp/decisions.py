"""Fifty decisions about one state: Formwork's `/v1/decisions` beside llama.cpp's server, which is asked prompt by prompt.

    python3 decisions.py --formwork PROGRAM --server "llama-server" -m MODEL.gguf [--rounds 3]

The server gets the tokens of Formwork's own prompts, one request for each, with a grammar of the labels and `n_probs`, and keeps
the common start of the prompts. It gives the probabilities of single tokens; Formwork sums over all spellings, and over the end
of the answer. Each round has another state. Both use two threads, listen on loopback and are stopped at the end.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import time
import urllib.request

PLACES = ["the login page", "the invoice", "the export", "the search", "the mobile app", "the map", "the printer", "the report"]
TEAMS = ["billing", "engineering", "sales", "support"]
LEVELS = ["none", "low", "medium", "high", "extreme"]


def state(number, words):
    """Messages of customers with about `words` words, different for each number."""
    lines = []
    while sum(line.count(" ") for line in lines) < words:
        at = len(lines)
        place, other = PLACES[(at + number) % len(PLACES)], PLACES[(at * 3 + 1) % len(PLACES)]
        lines.append(f"Ticket {number * 1000 + at}: {place} stopped working after the update, and now {other} shows an error.")
    return "\n".join(lines)


def questions():
    """Fifty questions: 20 predicates, 20 choices and 10 scores."""
    for index in range(50):
        place = PLACES[index % len(PLACES)]
        if index % 5 < 2:
            yield {"type": "predicate", "instructions": f"Does ticket {index} speak of {place}?"}
        elif index % 5 < 4:
            choices = [{"value": team} for team in TEAMS]
            yield {"type": "choice", "instructions": f"Which team should repair {place} for customer {index}?", "choices": choices}
        else:
            levels = [{"label": level} for level in LEVELS]
            yield {"type": "score", "instructions": f"How urgent is {place} for customer {index}?", "levels": levels}


def post(url, body):
    """The answer to a request, and the time it took in seconds."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    start = time.perf_counter()
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer), time.perf_counter() - start


def started(command, url):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{url}/health", timeout=1)
            return process
        except OSError:
            time.sleep(0.2)
    process.terminate()
    raise SystemExit(f"{command[0]} does not answer")


def labels(question):
    match question["type"]:
        case "predicate":
            return ["yes", "no"]
        case "choice":
            return [chr(ord("A") + index) for index in range(len(question["choices"]))]
        case _:
            return [str(index) for index in range(len(question["levels"]))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formwork", required=True)
    parser.add_argument("--server", required=True, help="llama-server, with what has to stand before it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--words", type=int, default=1300, help="of the state")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=8391)
    parser.add_argument("-m", "--model", required=True)
    options = parser.parse_args()
    ours, theirs = (f"http://127.0.0.1:{options.port + index}" for index in range(2))
    asked = list(questions())
    times = []
    servers = []
    try:
        command = [options.formwork, "serve", "-m", options.model, "--threads", str(options.threads)]
        servers.append(started([*command, "--port", str(options.port)], ours))
        command = [*shlex.split(options.server), "-m", options.model, "--port", str(options.port + 1), "-c", "8192"]
        servers.append(started([*command, "-np", "1", "-t", str(options.threads), "-fa", "on"], theirs))
        for number in range(options.rounds):
            body = {"input": state(number, options.words), "questions": asked}
            _, whole = post(f"{ours}/v1/decisions", body)
            body["formwork"] = {"return_prompt_token_ids": True}
            answer, again = post(f"{ours}/v1/decisions", body)
            singly, prompts, given = 0, 0, 0
            for question, answered in zip(asked, answer["answers"], strict=True):
                grammar = "root ::= " + " | ".join(f'"{label}"' for label in labels(question))
                for tokens in answered["prompt_token_ids"]:
                    request = {"prompt": tokens, "n_predict": 1, "n_probs": 26, "grammar": grammar, "cache_prompt": True}
                    _, taken = post(f"{theirs}/completion", request)
                    singly, prompts, given = singly + taken, prompts + 1, max(given, len(tokens))
            times.append((whole, again, singly))
            print(
                f"{prompts} prompts of at most {given} tokens: Formwork {whole:.1f} s, {again:.1f} s again;"
                f" llama.cpp {singly:.1f} s, {singly / whole:.2f} times as long",
                flush=True,
            )
    finally:
        for server in servers:
            server.terminate()
            server.wait()
    print(f"median {statistics.median(singly / whole for whole, _, singly in times):.2f} times as long")


if __name__ == "__main__":
    main()
