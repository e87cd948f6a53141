// Asks a model of a provider for directives, through a Formwork server, and prints the text while it arrives:
//
//     formwork serve --config formwork.toml        # a file with [providers.NAME]
//     node directives.mjs http://127.0.0.1:8080 NAME MODEL "Tell me that it is saved."

const [url, provider, model, prompt] = process.argv.slice(2);
const registry = { definitions: [{ type: "ui.toast", description: "Shows a short message.", aliases: ["toast"] }] };
const messages = [{ role: "user", content: prompt }];
const body = JSON.stringify({ provider, model, messages, registry, require: ["ui.toast"], stream: true });
const response = await fetch(`${url}/v1/directives`, { method: "POST", headers: { "content-type": "application/json" }, body });
if (!response.ok) throw new Error(await response.text());
let rest = "";
for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const events = (rest + piece).split("\n\n");
    rest = events.pop();
    for (const event of events) {
        const [, name, data] = event.match(/^event: (.*)\ndata: (.*)$/) ?? [];
        if (name === "text") process.stdout.write(JSON.parse(data).delta);
        if (name === "directive") console.log("\n" + data);
        if (name === "error") throw new Error(data);
        if (name === "result") process.exitCode = JSON.parse(data).ok ? 0 : 1;
    }
}
