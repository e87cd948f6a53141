// Lets a model of `formwork serve --tools tools.toml` call a JavaScript function. Usage: tools.mjs URL MODEL [PROVIDER]
import http from "node:http";

const [url, model, provider] = process.argv.slice(2);
const port = process.env.PORT ?? 9000;
const callback = http.createServer(async (request, response) => {
  const { item } = JSON.parse((await request.toArray()).join(""));
  console.log("count_stock:", item);
  response.end(JSON.stringify({ count: { lamp: 12, chair: 5 }[item] ?? 0 }));
}).listen(port, "127.0.0.1");
const parameters = { type: "object", properties: { item: { enum: ["lamp", "chair"] } }, required: ["item"] };
const tools = [{ name: "count_stock", description: "Counts the items in stock.", parameters, url: `http://127.0.0.1:${port}/count` }];
const messages = [{ role: "user", content: "How many lamps are there?" }];
const body = JSON.stringify({ model, provider, messages, tools, options: { max_turns: 4 } });
const answer = await fetch(url + "/v1/tools/run", { method: "POST", headers: { "content-type": "application/json" }, body });
const run = await answer.json();
console.log(run.ok ? run.text : (run.errors ?? run.error));
callback.close();
