// Tests the page in Chromium against a server that answers as the test wants: late, broken, hostile or very fast.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { complete, constrain, launch, send, set, view, visitWith } from "./harness.mjs";

const FILES = process.env.FORMWORK_PAGE_FILES;
const KINDS = { html: "text/html", css: "text/css", js: "text/javascript" };
const GOOD = { ok: true, warnings: [], states: 1, shortest: "x", minimum_tokens: 1 };

let browser;
before(async () => (browser = await launch()));
after(() => browser?.close());

function json(response, value, status = 200) {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(value));
}

const event = (delta, more = {}) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, ...more }] })}\n\n`;
const END = `${event({}, { finish_reason: "stop" })}data: [DONE]\n\n`;

function stream(response, ...parts) {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const part of parts) response.write(part);
}

/** Serves the files of the page, and the answers of `routes`, functions of a response and the body of a request. */
async function fake(routes = {}) {
    const answers = {
        "/v1/models": (response) => json(response, { data: [{ id: "m" }] }),
        "/v1/grammar/check": (response) => json(response, GOOD),
        ...routes,
    };
    const server = createServer(async (request, response) => {
        let body = "";
        for await (const part of request) body += part;
        const [path] = request.url.split("?");
        if (answers[path]) return answers[path](response, body && JSON.parse(body), request);
        const name = path === "/" ? "index.html" : path.replace(/^\/page\//, "");
        try {
            const text = readFileSync(`${FILES}/${name}`);
            response.writeHead(200, { "content-type": KINDS[name.split(".").at(-1)] });
            response.end(text);
        } catch {
            json(response, {}, 404);
        }
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    return {
        url: `http://127.0.0.1:${server.address().port}`,
        stop() {
            server.closeAllConnections();
            server.close();
        },
    };
}

async function visit(routes, steps, options) {
    const server = await fake(routes);
    await visitWith(browser, server.url, steps, options).finally(server.stop);
}

const chat = (...parts) => ({ "/v1/chat/completions": (response) => stream(response, ...parts) || response.end() });

const mask = (token, start, more = {}) => ({
    token, id: 1, bytes: [...Buffer.from(token)], start, end: start + Buffer.byteLength(token), origin: "sampled", allowed: 5,
    probability: 0.5, removed: 0.1, path: null, rules: [], top: [], ...more,
});

test("ten thousand tokens leave the page usable", () => {
    const tokens = Array.from({ length: 10_000 }, (_, index) => event({ content: "word " }, { mask_view: [mask("word ", 5 * index)] }));
    return visit(chat(tokens.join(""), END), async (page) => {
        await page.evaluate(() => {
            globalThis.longest = 0;
            const list = new PerformanceObserver((entries) => {
                for (const { duration } of entries.getEntries()) globalThis.longest = Math.max(globalThis.longest, duration);
            });
            list.observe({ entryTypes: ["longtask"] });
        });
        const started = Date.now();
        await send(page, "Write.");
        assert.ok(Date.now() - started < 15_000, `${Date.now() - started} ms`);
        const longest = await page.evaluate(() => globalThis.longest);
        assert.ok(longest < 2_000, `a task of ${longest} ms`);
    });
});

test("events may be cut anywhere, and stopping ends the request", () => {
    const text = Buffer.from(event({ content: "é😀" }) + event({ content: " b" }).replaceAll("\n", "\r\n"));
    let closed = false;
    const routes = {
        async "/v1/chat/completions"(response) {
            response.on("close", () => (closed = true));
            stream(response);
            for (const byte of text) {
                response.write(Buffer.from([byte]));
                await sleep(1);
            }
        },
    };
    return visit(routes, async (page) => {
        await page.fill("#prompt", "Hello");
        await page.click("#send");
        await page.locator(".answer .text").filter({ hasText: "é😀 b" }).waitFor();
        await page.click("#stop");
        const answer = await complete(page, 0);
        assert.match(await answer.innerText(), /You stopped this answer/);
        for (let waited = 0; !closed && waited < 5_000; waited += 50) await sleep(50);
        assert.ok(closed);
    });
});

test("a missing end and an error within the stream are told", async () => {
    const error = `data: ${JSON.stringify({ error: { message: "out of memory" } })}\n\n`;
    for (const [ending, message] of [["", /connection broke/], [error, /out of memory/], ["data: {\n\n", /not JSON/]]) {
        await visit(chat(event({ content: "Some text" }), ending), async (page) => {
            const answer = await send(page, "Hello");
            assert.match(await answer.innerText(), /Some text/);
            assert.match(await page.locator("#alert").innerText(), message);
        });
    }
    const html = { "/v1/decisions": (response) => response.end("<html>") };
    await visit(html, async (page) => {
        await page.click("#tab-decisions");
        await page.click("#decision-example");
        await page.click("#decide");
        await page.locator("#alert").filter({ hasText: "not JSON" }).waitFor();
    });
});

test("a key that is refused takes no text and no focus", () => {
    const refused = async (response) => {
        await sleep(300);
        json(response, { error: { message: "no key", param: null } }, 401);
    };
    return visit({ "/v1/models": refused, "/v1/grammar/check": refused }, async (page) => {
        await page.locator("#prompt").pressSequentially("Hello, how are you?", { delay: 30 });
        await page.locator("#alert").filter({ hasText: "API key" }).waitFor();
        assert.equal(await page.inputValue("#prompt"), "Hello, how are you?");
        assert.equal(await page.inputValue("#api-key"), "");
        await page.getByRole("button", { name: "Enter the key" }).click();
        assert.equal(await page.evaluate(() => document.activeElement.id), "api-key");
    });
});

test("late answers change nothing", () => {
    const routes = {
        async "/v1/grammar/explain"(response, { text }) {
            if (text === "old") await sleep(600);
            json(response, { matches: true, may_end: false, at: 0, tokens: 1, bytes: `after ${text}`, expected: [] });
        },
        async "/v1/grammar/check"(response, { grammar }) {
            if (grammar === "old") await sleep(600);
            json(response, { ...GOOD, shortest: `shortest of ${grammar}` });
        },
    };
    return visit(routes, async (page) => {
        await constrain(page, "gbnf", "old");
        await sleep(400);
        await page.fill("#constraint-text", "new");
        // A verdict about another text does not stay.
        assert.equal(await page.locator("#constraint-status").getAttribute("data-state"), "checking");
        await set(page, "#explain-text", "old");
        await page.click("#explain");
        await page.fill("#explain-text", "new");
        await page.click("#explain");
        await page.locator("#explain-result").filter({ hasText: "after new" }).waitFor();
        await sleep(700);
        assert.match(await page.locator("#explain-result").innerText(), /after new/);
        assert.match(await page.locator("#constraint-status").innerText(), /shortest of new/);
        await page.selectOption("#constraint-kind", "regex");
        assert.equal(await page.locator("#explain-result").innerText(), "");
    });
});

test("arguments of calls are shown as they came, also in thousands of pieces", () => {
    const call = (piece) => event({ tool_calls: [{ index: 0, ...piece }] });
    const start = call({ id: "c", type: "function", function: { name: "f", arguments: '{"id": 9007199254740993, "x": 1.0, "a":1, "a":2, "t": "' } });
    const pieces = Array.from({ length: 5_000 }, () => call({ function: { arguments: "word " } }));
    const end = call({ function: { arguments: '"}' } }) + event({}, { finish_reason: "tool_calls" });
    return visit(chat(start, pieces.join(""), end, "data: [DONE]\n\n"), async (page) => {
        const started = Date.now();
        const answer = await send(page, "Call.");
        assert.ok(Date.now() - started < 10_000);
        const text = await answer.locator(".call pre").innerText();
        assert.ok(text.startsWith('{\n  "id": 9007199254740993,\n  "x": 1.0,\n  "a": 1,\n  "a": 2,\n  "t": "word '));
    });
});

test("an exported conversation returns, and a hostile file does no harm", async () => {
    await visit(chat(event({ content: "An answer" }), END), async (page) => {
        await send(page, "A question");
        const [download] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
        const file = await download.path();
        page.on("dialog", (dialog) => dialog.accept());
        await page.click("#new");
        await set(page, "#system", "Typed before");
        await page.fill("#prompt", "A draft");
        await page.setInputFiles("#import-file", file);
        await page.locator("#messages").filter({ hasText: "An answer" }).waitFor();
        assert.equal(await page.inputValue("#prompt"), "A draft");
        // A file has no part that it does not name.
        const bare = { format: "formwork-conversation", version: 1, messages: [{ role: "user", content: "Bare" }, { role: "x" }] };
        await set(page, "#system", "Typed before");
        await page.setInputFiles("#import-file", { name: "a.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(bare)) });
        await page.locator("#messages").filter({ hasText: "Bare" }).waitFor();
        assert.equal(await page.inputValue("#system"), "Typed before");
        assert.match(await page.locator("#alert").innerText(), /1 messages? of unknown roles/);
        const strange = { toString: 1, valueOf: 1, toLocaleString: 1 };
        const hostile = {
            ...bare,
            messages: [{
                role: "assistant", content: "Strange", finish: strange, note: strange, seconds: "x",
                usage: { completion_tokens: 1, prompt_tokens: strange, prompt_tokens_details: { cached_tokens: strange } },
                masks: [mask("Strange", 0, { origin: "constructor", bytes: [strange], top: [{ token: "a", probability: 0.1, bytes: strange }] })],
                decisions: [{ path: "", kind: "value", probabilities: [{ probability: 0.5, sampled: strange }] }],
                constraint: { kind: "__proto__", text: strange },
            }],
        };
        await page.setInputFiles("#import-file", { name: "b.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(hostile)) });
        const answer = page.locator(".answer").filter({ hasText: "Strange" });
        await answer.waitFor();
        const masks = await view(answer, "masks");
        await masks.locator(".token[data-origin]").hover();
        assert.match(await masks.locator(".token-panel").innerText(), /constructor/);
        await page.reload();
        await answer.waitFor();
        await page.setInputFiles("#import-file", { name: "c.json", mimeType: "application/json", buffer: Buffer.from("{") });
        await page.locator("#alert").filter({ hasText: "cannot be read as JSON" }).waitFor();
    });
});

test("what is typed survives a reload, another tab and a full storage", () =>
    visit(chat(event({ content: "Kept" }), END), async (page, context) => {
        await send(page, "Hello");
        await page.locator(".message.user .edit").click();
        await page.fill("#prompt", "Changed");
        await page.click("#tab-decisions");
        await page.fill("#decision-question", "Is it kept?");
        await page.reload();
        // The tab stays too.
        assert.ok(await page.locator("#panel-decisions").isVisible());
        await page.click("#tab-chat");
        assert.equal(await page.inputValue("#prompt"), "Changed");
        await page.click("#cancel-edit");
        assert.equal(await page.inputValue("#prompt"), "");
        assert.equal(await page.inputValue("#decision-question"), "Is it kept?");
        // A second tab that changes nothing overwrites nothing.
        const other = await context.newPage();
        await other.goto(page.url());
        await other.locator("#messages").filter({ hasText: "Kept" }).waitFor();
        await page.fill("#prompt", "Typed later");
        await page.locator("#prompt").blur();
        await other.close();
        await page.reload();
        assert.equal(await page.inputValue("#prompt"), "Typed later");
        await page.evaluate(() => {
            Storage.prototype.setItem = () => {
                throw new DOMException("full", "QuotaExceededError");
            };
        });
        await page.fill("#prompt", "Not kept");
        await page.locator("#prompt").blur();
        await page.locator("#alert").filter({ hasText: "cannot keep" }).waitFor();
    }));

test("a narrow screen stays where the person scrolled", () => {
    const routes = {
        async "/v1/chat/completions"(response) {
            stream(response);
            for (let index = 0; index < 60; index += 1) {
                response.write(event({ content: "word ".repeat(20) }));
                await sleep(30);
            }
            response.end(END);
        },
    };
    return visit(routes, async (page) => {
        await page.fill("#prompt", "Write.");
        await page.click("#send");
        // The page follows the end until the person scrolls up, or down to the settings.
        await page.waitForFunction(() => scrollY > 400);
        for (const to of [0, 1e6]) {
            const at = await page.evaluate((top) => {
                scrollTo(0, top);
                return scrollY;
            }, to);
            await sleep(200);
            assert.equal(await page.evaluate(() => scrollY), at);
        }
        await complete(page, 0);
    }, { viewport: { width: 360, height: 500 } });
});

test("a token keeps its figures on the way to its button, and parts of characters are bytes", () => {
    const parts = [...Buffer.from("😀")].map((byte, index) => mask("\uFFFD", index, { bytes: [byte] }));
    parts.forEach((part, index) => (part.end = index + 1));
    const masks = [...parts, mask("ab", 4), mask("cd", 6)];
    const routes = {
        ...chat(event({ content: "😀abcd" }, { mask_view: masks }), END),
        "/v1/grammar/explain": (response, { text }) =>
            json(response, { matches: true, may_end: false, at: 0, tokens: 1, bytes: `after ${text}`, expected: [] }),
    };
    return visit(routes, async (page) => {
        await constrain(page, "gbnf", "root ::= [^x]+");
        const shown = await view(await send(page, "Hello"), "masks");
        const tokens = shown.locator(".token[data-origin]");
        assert.deepEqual(await tokens.allTextContents(), ["<F0>", "<9F>", "<98>", "<80>", "ab", "cd"]);
        await tokens.nth(4).click();
        await tokens.nth(5).hover();
        assert.match(await shown.locator(".token-panel").innerText(), /"ab"/);
        await shown.getByRole("button", { name: "Explain" }).click();
        await shown.locator(".explained").filter({ hasText: "after 😀" }).waitFor();
        await tokens.nth(2).click();
        await shown.getByRole("button", { name: "Explain" }).click();
        await shown.locator(".explained").filter({ hasText: "part of a character" }).waitFor();
    });
});
