"""Asks a model of a provider for directives, through a Formwork server:

    formwork serve --config formwork.toml        # a file with [providers.NAME]
    python3 directives.py http://127.0.0.1:8080 NAME MODEL "Tell me that it is saved."
"""

import json
import sys
import urllib.request

url, provider, model, prompt = sys.argv[1:]
registry = {"definitions": [{"type": "ui.toast", "description": "Shows a short message.", "aliases": ["toast"]}]}
body = {"provider": provider, "model": model, "messages": [{"role": "user", "content": prompt}],
        "registry": registry, "require": ["ui.toast"]}
request = urllib.request.Request(f"{url}/v1/directives", json.dumps(body).encode(), {"content-type": "application/json"})
result = json.load(urllib.request.urlopen(request))
print(result["assistant_text"])
for directive in result["directives"]:
    print(directive["type"], json.dumps(directive["payload"]))
sys.exit(not result["ok"])
