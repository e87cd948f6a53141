"""Lets a model of `formwork serve --tools tools.toml` call a Python function. Usage: tools.py URL MODEL [PROVIDER]"""
import http.server, json, os, sys, threading, urllib.request

class Stock(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        item = json.loads(self.rfile.read(int(self.headers["content-length"])))["item"]
        print("count_stock:", item)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"count": {"lamp": 12, "chair": 5}.get(item, 0)}).encode())

    def log_message(self, *_):
        pass

port = int(os.environ.get("PORT", 9000))
callback = http.server.HTTPServer(("127.0.0.1", port), Stock)
threading.Thread(target=callback.serve_forever, daemon=True).start()
url, model, *provider = sys.argv[1:]
parameters = {"type": "object", "properties": {"item": {"enum": ["lamp", "chair"]}}, "required": ["item"]}
tool = {"name": "count_stock", "description": "Counts the items in stock.", "parameters": parameters, "url": f"http://127.0.0.1:{port}/count"}
body = {"model": model, "messages": [{"role": "user", "content": "How many lamps are there?"}], "tools": [tool], "options": {"max_turns": 4}}
body |= {"provider": provider[0]} if provider else {}
request = urllib.request.Request(url + "/v1/tools/run", json.dumps(body).encode(), {"content-type": "application/json"})
run = json.load(urllib.request.urlopen(request))
print(run["text"] if run["ok"] else run["errors"])
