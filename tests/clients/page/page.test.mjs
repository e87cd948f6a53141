// Tests the page at `/` in Chromium.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

const MODEL = process.env.FORMWORK_CLIENTS_MODEL ?? "smollm2-135m-instruct";
const SHOTS = process.env.FORMWORK_PAGE_SHOTS;
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
// Without these, Chromium looks up hosts of its own.
const ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
];
const SCHEMA = {
    type: "object",
    properties: { answer: { enum: ["true", "false"] }, reason: { type: "string", maxLength: 40 } },
    required: ["answer", "reason"],
};

let browser;
let server;

async function serve(...options) {
    const process_ = spawn(process.env.FORMWORK_BINARY, ["serve", "-m", MODEL, "--port", "0", ...options], {
        stdio: ["ignore", "ignore", "pipe"],
    });
    const lines = createInterface({ input: process_.stderr });
    for await (const line of lines) {
        const found = line.match(/ on (http:\S+)\/v1$/);
        if (found) {
            lines.on("line", () => {});
            process_.stderr.resume();
            const exit = once(process_, "exit");
            return { url: found[1], stop: () => process_.kill("SIGKILL") && exit };
        }
    }
    throw new Error("the server did not start");
}

/** Opens the page, runs `steps`, and checks that nothing failed and that no request left the server. */
async function visit(url, steps, options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    const faults = [];
    page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
    page.on("console", (message) => {
        // A status that the page reports to the person is in the console too.
        const isStatus = message.text().startsWith("Failed to load resource");
        if (message.type() === "error" && !isStatus) faults.push(`console: ${message.text()}`);
    });
    page.on("request", (request) => {
        const target = request.url();
        const isOwn = target.startsWith(`${url}/`) || target.startsWith("blob:") || target.startsWith("data:");
        if (!isOwn) faults.push(`request to ${target}`);
    });
    try {
        await page.goto(`${url}/`);
        await steps(page, context);
        assert.deepEqual(faults, []);
    } finally {
        await context.close();
    }
}

async function shot(page, name) {
    if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png` });
}

async function constrain(page, kind, text) {
    await page.selectOption("#constraint-kind", kind);
    await page.fill("#constraint-text", text);
}

/** Returns the answer with this index, when it is complete. */
async function complete(page, index) {
    const answer = page.locator(".answer").nth(index);
    await answer.and(page.locator(":not([aria-busy])")).waitFor();
    return answer;
}

/** Sends a message and waits for the end of the answer. */
async function send(page, text) {
    const index = await page.locator(".answer").count();
    await page.fill("#prompt", text);
    await page.click("#send");
    return complete(page, index);
}

/** Shows a view of an answer, and returns its panel. */
async function view(answer, name) {
    await answer.locator(`[data-view="${name}"]`).click();
    return answer.locator("[role=tabpanel]:visible");
}

async function set(page, name, value) {
    await page.evaluate(() => document.querySelectorAll("details").forEach((part) => (part.open = true)));
    await page.fill(name, value);
}

before(async () => {
    [browser, server] = await Promise.all([
        chromium.launch({ executablePath: process.env.CHROMIUM, headless: true, args: ARGUMENTS }),
        serve(),
    ]);
});

after(async () => {
    await browser?.close();
    await server?.stop();
});

test("an answer with a schema, as text, JSON and masks", () =>
    visit(server.url, async (page) => {
        await set(page, "#temperature", "0");
        await set(page, "#max_tokens", "100");
        await constrain(page, "json_schema", JSON.stringify(SCHEMA));
        await page.locator("#constraint-status[data-state=ok]").waitFor();
        const answer = await send(page, "Is water wet? Answer yes or no, then give a reason.");
        const text = await (await view(answer, "text")).innerText();
        const value = JSON.parse(text);
        assert.ok(SCHEMA.properties.answer.enum.includes(value.answer));
        assert.match(await (await view(answer, "json")).innerText(), /answer/);
        const masks = await view(answer, "masks");
        const spelt = await masks.locator(".token[data-origin]").allTextContents();
        assert.equal(spelt.join(""), text);
        const forced = masks.locator('.token[data-origin^="only"]').first();
        await forced.hover();
        const panel = page.locator("#token-panel");
        assert.match(await panel.innerText(), /only|single/i);
        await masks.getByRole("button", { name: "Next place" }).click();
        const selected = masks.locator('.token[aria-selected="true"]');
        assert.ok(Number(await selected.getAttribute("data-removed")) >= 0.5);
        await shot(page, "masks");
        await page.getByRole("button", { name: "Explain what may come here" }).click();
        await page.locator("#explain-result").filter({ hasText: /answer/ }).waitFor();
        assert.ok(text.startsWith(await page.inputValue("#explain-text")));
    }));

test("a faulty grammar and its mend", () =>
    visit(server.url, async (page) => {
        const status = page.locator("#constraint-status");
        await constrain(page, "gbnf", 'root ::= "a" other');
        await status.filter({ hasText: "rule `other` is not defined" }).waitFor();
        assert.match(await status.innerText(), /line 1, column 14/i);
        await shot(page, "grammar-error");
        await page.fill("#constraint-text", 'root ::= "a" other\nother ::= "b"');
        await page.locator("#constraint-status[data-state=ok]").waitFor();
        await page.selectOption("#constraint-kind", "json_schema");
        await page.fill("#constraint-text", '{"type": }');
        await status.filter({ hasText: /line 1/i }).waitFor();
        // Digits and the order of members are sent as they were typed.
        const properties = '{"b": {"const": 9007199254740993}, "1": {"const": 1}}';
        await page.fill("#constraint-text", `{"type": "object", "properties": ${properties}, "required": ["b", "1"]}`);
        await status.filter({ hasText: '{"b": 9007199254740993, "1": 1}' }).waitFor();
        // The text of each kind is kept.
        await page.selectOption("#constraint-kind", "gbnf");
        assert.match(await page.inputValue("#constraint-text"), /other ::= "b"/);
    }));

test("hostile text stays text", () =>
    visit(server.url, async (page) => {
        const hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>";
        page.on("dialog", () => assert.fail("a script ran"));
        await constrain(page, "choices", hostile);
        const answer = await send(page, hostile);
        for (const name of ["text", "masks"]) {
            assert.match((await (await view(answer, name)).textContent()).replace(/↵/g, ""), /<img src=x/);
        }
        assert.equal(await page.locator("#messages img, #messages script").count(), 0);
    }));

test("a tool call and its result", () =>
    visit(server.url, async (page) => {
        const parameters = { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"] };
        const tools = [{ type: "function", function: { name: "weather", parameters } }];
        await set(page, "#tools", JSON.stringify(tools));
        await page.selectOption("#tool-choice", "required");
        await set(page, "#max_tokens", "60");
        const answer = await send(page, "How is the weather in Oslo?");
        const calls = await answer.locator(".call").all();
        assert.ok(calls.length > 0);
        await page.selectOption("#tool-choice", "none");
        // The last result sends all.
        for (const call of calls) {
            assert.match(await call.innerText(), /weather/);
            await call.locator("textarea").fill('{"sky": "clear"}');
            await call.getByRole("button", { name: "Send the result" }).click();
        }
        assert.ok((await (await complete(page, 1)).innerText()).length > 0);
    }));

test("a fault is shown at its field, and nothing typed is lost", () =>
    visit(server.url, async (page) => {
        await set(page, "#temperature", "999");
        await page.fill("#prompt", "Hello there");
        await page.click("#send");
        await page.locator("#alert:not([hidden])").waitFor();
        assert.match(await page.locator("#alert").innerText(), /temperature/);
        assert.equal(await page.locator("#temperature").getAttribute("aria-invalid"), "true");
        const kept = (await page.inputValue("#prompt")) + (await page.locator("#messages").innerText());
        assert.match(kept, /Hello there/);
    }));

test("decisions and the state of the server", () =>
    visit(server.url, async (page) => {
        await page.click("#tab-decisions");
        await page.fill("#decision-input", "The app crashes on every start.");
        await page.fill("#decision-question", "Is this a complaint?");
        await page.click("#decide");
        await page.locator("#decision-result .bar").first().waitFor();
        await page.click("#tab-server");
        await page.locator("#metrics-table tbody tr").nth(3).waitFor();
        assert.match(await page.locator("#models-table").innerText(), new RegExp(MODEL));
        await shot(page, "server");
    }));

for (const [name, options] of [
    ["light", { colorScheme: "light" }],
    ["dark", { colorScheme: "dark" }],
    ["narrow", { viewport: { width: 360, height: 800 } }],
    ["wide", { viewport: { width: 2560, height: 1200 } }],
]) {
    test(`no serious fault of accessibility: ${name}`, () =>
        visit(server.url, async (page) => {
            await set(page, "#max_tokens", "12");
            await constrain(page, "choices", "yes\nno");
            const answer = await send(page, "Is water wet?");
            await view(answer, "masks");
            const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            assert.ok(overflow <= 0, `${overflow} px too wide`);
            await shot(page, name);
            // The policy of the page allows no script of others, so the driver evaluates it.
            for (const tab of ["chat", "decisions", "server"]) {
                await page.click(`#tab-${tab}`);
                await page.evaluate(AXE);
                const found = await page.evaluate(() => globalThis.axe.run());
                const serious = found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
                const told = serious.map(({ id, nodes }) => `${tab}: ${id}: ${nodes.map((node) => node.target).join(", ")}`);
                assert.deepEqual(told, []);
            }
        }, options));
}

test("an API key refused and given", async () => {
    const guarded = await serve("--api-key", "secret");
    try {
        await visit(guarded.url, async (page) => {
            await page.locator("#alert:not([hidden])").waitFor();
            assert.match(await page.locator("#alert").innerText(), /key/i);
            await set(page, "#api-key", "wrong");
            await page.fill("#prompt", "Hello");
            await page.click("#send");
            await page.locator("#alert:not([hidden])").waitFor();
            await set(page, "#api-key", "secret");
            await set(page, "#max_tokens", "8");
            await page.locator(`#model option[value="${MODEL}"]`).waitFor({ state: "attached" });
            await send(page, "Hello");
        });
    } finally {
        await guarded.stop();
    }
});

test("a connection that breaks leaves the partial answer", async () => {
    const short = await serve();
    const steps = async (page) => {
        await set(page, "#max_tokens", "4000");
        await constrain(page, "regex", "[a-z]{3000}");
        await page.fill("#prompt", "Write.");
        await page.click("#send");
        const text = page.locator(".answer [role=tabpanel]").first();
        await text.filter({ hasText: /[a-z]{20}/ }).waitFor();
        await short.stop();
        await page.locator("#alert:not([hidden])").waitFor();
        assert.match(await page.locator("#alert").innerText(), /connection|server/i);
        assert.match(await text.innerText(), /[a-z]{20}/);
    };
    await visit(short.url, steps).finally(short.stop);
});
