"""An MCP server on standard input and output. Its tool `note_down` appends a text to the file that the first argument names."""

import json
import sys

TOOL = {
    "name": "note_down",
    "description": "Notes a text down.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def answer(method, params):
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
                "instructions": "Notes of the sea.",
            }
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            with open(sys.argv[1], "a") as notes:
                notes.write(params["arguments"]["text"] + "\n")
            return {"content": [{"type": "text", "text": "Noted."}]}
        case _:
            return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
