// Tests the page at `/` in Chromium, with a real model.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { complete, constrain, launch, MODEL, send, serve, set, shot, view, visitWith } from "./harness.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SCHEMA = {
    type: "object",
    properties: { answer: { enum: ["true", "false"] }, reason: { type: "string", maxLength: 40 } },
    required: ["answer", "reason"],
};

let browser;
let server;

before(async () => {
    [browser, server] = await Promise.all([launch(), serve()]);
});

after(async () => {
    await browser?.close();
    await server?.stop();
});

const visit = (url, steps, options) => visitWith(browser, url, steps, options);

test("an answer with a schema, as text, JSON and masks", () =>
    visit(server.url, async (page) => {
        await set(page, "#temperature", "0");
        await set(page, "#max_tokens", "100");
        await constrain(page, "json_schema", JSON.stringify(SCHEMA));
        await page.locator("#constraint-status[data-state=ok]").waitFor();
        const answer = await send(page, "Is water wet? Answer yes or no, then give a reason.");
        const text = await (await view(answer, "text")).innerText();
        const value = JSON.parse(text);
        // Where the schema disagrees with the prompt, the answer says so.
        assert.match(await answer.locator(".override").innerText(), /At \/answer, the constraint forbade 9\d\.\d% .*"(No|yes|no|Yes)"/);
        assert.ok(SCHEMA.properties.answer.enum.includes(value.answer));
        assert.match(await (await view(answer, "json")).innerText(), /answer/);
        const masks = await view(answer, "masks");
        const spelt = await masks.locator(".token[data-origin]").allTextContents();
        assert.equal(spelt.join(""), text);
        const forced = masks.locator('.token[data-origin^="only"]').first();
        await forced.hover();
        const panel = masks.locator(".token-panel");
        assert.match(await panel.innerText(), /only|single/i);
        await masks.getByRole("button", { name: "Next override" }).click();
        const selected = masks.locator('.token[aria-selected="true"]');
        assert.ok(Number(await selected.getAttribute("data-removed")) >= 0.5);
        await shot(page, "masks");
        // The constraint of the answer counts, whatever the panel has now.
        await page.selectOption("#constraint-kind", "none");
        await panel.getByRole("button", { name: "Explain what may come here" }).click();
        await panel.locator(".explained").filter({ hasText: /answer/ }).waitFor();
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

test("the options of choices, and the place in a grammar", () =>
    visit(server.url, async (page) => {
        await set(page, "#max_tokens", "60");
        await page.check("#decisions");
        await constrain(page, "json_schema", JSON.stringify({
            type: "object", properties: { wet: { enum: ["yes", "no"] } }, required: ["wet"],
        }));
        const tree = await view(await send(page, "Is water wet?"), "json");
        await tree.locator(".scalar").hover();
        const note = await tree.locator(".tree-note").innerText();
        assert.match(note, /^\/wet: /);
        assert.match(note, /Among the allowed options: "(yes|no)" [\d.]+%, "(yes|no)" [\d.]+%/);
        await constrain(page, "gbnf", 'root ::= letter "-" letter\nletter ::= [a-z]');
        const second = await send(page, "Two letters.");
        const masks = await view(second, "masks");
        await masks.locator(".token[data-origin]").first().hover();
        assert.match(await masks.locator(".token-panel").innerText(), /Place\s+letter/);
        // The options of text that is not JSON are listed.
        await constrain(page, "choices", "yes\nno");
        const third = await view(await send(page, "Is water wet?"), "json");
        assert.match(await third.innerText(), /Among the allowed options: "(yes|no)" /);
    }));

test("structural tags, and their fault", () =>
    visit(server.url, async (page) => {
        const tag = (content) => ({ type: "structural_tag", format: { type: "tag", begin: "<a>", end: "</a>", content } });
        const status = page.locator("#constraint-status");
        await constrain(page, "tags", JSON.stringify(tag({ type: "regex", pattern: "(" })));
        await page.locator("#constraint-status[data-state=error]").filter({ hasText: "/format/content" }).waitFor();
        await page.fill("#constraint-text", JSON.stringify(tag({ type: "regexx" })));
        await status.filter({ hasText: "/format/content/type" }).waitFor();
        await page.fill("#constraint-text", JSON.stringify(tag({ type: "regex", pattern: "yes|no" })));
        await status.and(page.locator("[data-state=ok]")).waitFor();
        const answer = await send(page, "Is water wet?");
        assert.match(await (await view(answer, "text")).innerText(), /^<a>(yes|no)<\/a>$/);
    }));

test("typed fields, and their faults", () =>
    visit(server.url, async (page) => {
        const status = page.locator("#constraint-status");
        await constrain(page, "fields", "name: Loot\nfields:\n  - { name: gold, type: int, min: 9, max: 3 }\n");
        await page.locator("#constraint-status[data-state=error]").filter({ hasText: "gold: min (9)" }).waitFor();
        await page.fill("#constraint-text", "name: Loot\ntype: int\n  min: 1");
        await status.filter({ hasText: "line 3" }).waitFor();
        await page.fill("#constraint-text", "name: Loot\nfields:\n  - { name: gold, type: int, min: 1, max: 9 }\n");
        await status.and(page.locator("[data-state=ok]")).waitFor();
        const answer = await send(page, "What is in the chest?");
        assert.match(await (await view(answer, "text")).innerText(), /^\{"gold": [1-9]\}$/);
    }));

test("every example can be enforced", () =>
    visit(server.url, async (page) => {
        const kinds = await page.locator("#constraint-kind option").evaluateAll((options) => options.map(({ value }) => value));
        for (const kind of kinds) {
            await page.selectOption("#constraint-kind", kind);
            for (const example of await page.locator("#constraint-example option").all()) {
                await page.selectOption("#constraint-example", await example.getAttribute("value"));
                await page.click("#insert-example");
                await page.locator("#constraint-status[data-state=checking]").waitFor();
                await page.locator("#constraint-status:is([data-state=ok], [data-state=error])").waitFor();
                assert.equal(await page.locator("#constraint-status").getAttribute("data-state"), "ok", `${kind}`);
            }
        }
    }));

test("an earlier message is edited", () =>
    visit(server.url, async (page) => {
        await set(page, "#max_tokens", "8");
        await send(page, "First");
        await send(page, "Second");
        await page.fill("#prompt", "A draft");
        const edit = () => page.locator(".message.user").first().getByRole("button", { name: "Edit" }).click();
        await edit();
        assert.equal(await page.inputValue("#prompt"), "First");
        await page.click("#cancel-edit");
        assert.equal(await page.inputValue("#prompt"), "A draft");
        await edit();
        await page.fill("#prompt", "Changed");
        await page.click("#send");
        await complete(page, 0);
        assert.equal(await page.locator(".message.user").count(), 1);
        assert.match(await page.locator("#messages").innerText(), /Changed/);
        assert.equal(await page.inputValue("#prompt"), "A draft");
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
            await call.getByRole("button", { name: /the result/ }).click();
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
