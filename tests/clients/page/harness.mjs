// What the tests of the page share: the browser, servers, and steps that a person takes.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

export const MODEL = process.env.FORMWORK_CLIENTS_MODEL ?? "smollm2-135m-instruct";
const SHOTS = process.env.FORMWORK_PAGE_SHOTS;
// Without these, Chromium looks up hosts of its own.
const ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
];

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM, headless: true, args: ARGUMENTS });

/** Starts `formwork serve` with a real model. */
export async function serve(...options) {
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
export async function visitWith(browser, url, steps, options = {}) {
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

export async function shot(page, name) {
    if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png` });
}

export async function constrain(page, kind, text) {
    await page.selectOption("#constraint-kind", kind);
    await page.fill("#constraint-text", text);
}

/** Returns the answer with this index, when it is complete. */
export async function complete(page, index) {
    const answer = page.locator(".answer").nth(index);
    await answer.and(page.locator(":not([aria-busy])")).waitFor();
    return answer;
}

/** Sends a message and waits for the end of the answer. */
export async function send(page, text) {
    const index = await page.locator(".answer").count();
    await page.fill("#prompt", text);
    await page.click("#send");
    return complete(page, index);
}

/** Shows a view of an answer, and returns its panel. */
export async function view(answer, name) {
    await answer.locator(`[data-view="${name}"]`).click();
    return answer.locator("[role=tabpanel]:visible");
}

export async function set(page, name, value) {
    await page.evaluate(() => document.querySelectorAll("details").forEach((part) => (part.open = true)));
    await page.fill(name, value);
}
