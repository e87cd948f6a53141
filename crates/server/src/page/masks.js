// The Masks view of an answer: its tokens, marked by what the constraint did to them, and a panel
// with the figures of one token.

import { bar, count, el, isPlain, percent, uniqueId } from "./dom.js";
import { clear, explain } from "./explain.js";
import { JsonError, parseJson } from "./json.js";

const HALF = 0.5;
const MOST = 0.9;

const ORIGINS = {
  sampled: "sampled from the allowed tokens",
  only_token: "appended as the only allowed token",
  only_text: "appended because the constraint allowed a single text",
  reasoning_budget: "appended because the reasoning had used up its budget",
  token_limit: "sampled from the tokens that complete the output within its token limit",
};

export function createMasks(message) {
  const entries = message.masks;
  const counted = { tokens: 0, forced: 0, places: 0 };
  let current = -1;
  let isPinned = false; // True if the person has chosen the current token, so pointing at others changes nothing.
  let isShown = false;
  const panelId = uniqueId("token-panel");
  const summary = el("p", { class: "summary" });
  const previous = el("button", { type: "button", onclick: () => jump(-1) }, "Previous override");
  const next = el("button", { type: "button", onclick: () => jump(1) }, "Next override");
  const position = el("span", { class: "hint", role: "status" });
  const list = el("div", { class: "tokens", role: "listbox", "aria-label": "Tokens of the answer", "aria-orientation": "horizontal" });
  const panel = el("div", { class: "token-panel", id: panelId });
  const parts = el("div", { class: "masks" }, el("div", { class: "row start" }, previous, next), position, legend(),
    el("div", { class: "masks-body" }, list, panel));
  const element = el("div", { class: "masks" }, summary, parts);
  const spans = list.children;
  const explained = el("div", { class: "explained", role: "status" });

  function select(index, { focus = false, pin = false } = {}) {
    if (!entries[index]) return;
    isPinned ||= pin;
    if (spans[current]) {
      spans[current].tabIndex = -1;
      spans[current].setAttribute("aria-selected", "false");
      spans[current].removeAttribute("aria-describedby");
    }
    const isOther = index !== current;
    current = index;
    const span = spans[index];
    span.tabIndex = 0;
    span.setAttribute("aria-selected", "true");
    span.setAttribute("aria-describedby", panelId);
    if (focus) {
      span.focus();
      span.scrollIntoView({ block: "nearest" });
    }
    if (!isOther) return;
    clear(explained);
    panel.replaceChildren(...figures(entries[index]), explainButton(index), explained);
  }

  function explainButton(index) {
    const button = el("button", { type: "button", text: "Explain what may come here", onclick() {
      select(index, { pin: true });
      const before = contentBefore(message, entries[index]);
      if (before === null) explained.textContent = "This token is no content of the answer, or it is a part of a character.";
      else explain(message.constraint, before, explained).then(() => explained.scrollIntoView({ block: "nearest" }));
    } });
    return message.constraint.kind === "none" || message.constraint.kind === "" ? "" : button;
  }

  function jump(step) {
    const places = entries.flatMap((entry, index) => (isPlace(entry) ? [index] : []));
    if (!places.length) return;
    // After the last place comes the first one.
    const target = step > 0
      ? places.find((index) => index > current) ?? places[0]
      : places.findLast((index) => index < current) ?? places.at(-1);
    select(target, { pin: true });
    spans[target].scrollIntoView({ block: "nearest" });
    position.textContent = `Override ${places.indexOf(target) + 1} of ${places.length}: ${spelt(entries[target])}, ${percent(entries[target].removed)} removed`;
  }

  // Returns the token that is nearest to the current one in the line above or below.
  function inNextLine(step) {
    const from = spans[current].getBoundingClientRect();
    let best = current;
    let bestLine = null;
    let bestDistance = Infinity;
    for (let index = current + step; index >= 0 && index < entries.length; index += step) {
      const box = spans[index].getBoundingClientRect();
      if (Math.abs(box.top - from.top) < 4) continue;
      bestLine ??= box.top;
      if (Math.abs(box.top - bestLine) > 4) break;
      const distance = Math.abs(box.left - from.left);
      if (distance < bestDistance) [best, bestDistance] = [index, distance];
    }
    return best;
  }

  list.addEventListener("keydown", (event) => {
    const move = {
      ArrowRight: () => current + 1, ArrowLeft: () => current - 1, Home: () => 0, End: () => entries.length - 1,
      ArrowDown: () => inNextLine(1), ArrowUp: () => inNextLine(-1),
    }[event.key];
    if (!move || !isPlain(event)) return;
    event.preventDefault();
    select(Math.min(entries.length - 1, Math.max(0, move())), { focus: true, pin: true });
  });
  for (const kind of ["pointerover", "focusin", "click"]) {
    list.addEventListener(kind, (event) => {
      const span = event.target.closest(".token");
      if (!span || (kind === "pointerover" && isPinned)) return;
      select([...spans].indexOf(span), { focus: kind === "click", pin: kind !== "pointerover" });
    });
  }

  // Notes that `message.masks` has gained these tokens.
  function add(more) {
    counted.tokens += more.length;
    counted.forced += more.filter(isForced).length;
    counted.places += more.filter(isPlace).length;
    summary.textContent = counted.tokens
      ? `The constraint overrode the model at ${counted.places} of ${count(counted.tokens, "token")}; ${counted.forced} were forced.`
      : "Nothing was recorded. Turn on “Record what the constraint does to each token” in the settings, and regenerate.";
    parts.hidden = counted.tokens === 0;
    previous.disabled = next.disabled = counted.places === 0;
    if (isShown) build();
  }

  // Creates the elements of the tokens that have none.
  function build() {
    list.append(...entries.slice(spans.length).map(tokenSpan));
    // At first, the override that tells most is selected.
    if (current < 0) select(Math.max(0, entries.indexOf(strongestOverride(message) ?? entries.find(isPlace))));
  }

  function show() {
    isShown = true;
    build();
  }

  add(entries);
  const goTo = (entry) => select(entries.indexOf(entry), { focus: true, pin: true });
  return { element, add, show, goTo };
}

// Returns the entry from which the constraint removed most.
export const mostRemoved = (entries) => entries.reduce((most, entry) => (!most || entry.removed > most.removed ? entry : most), null);

// Returns the token that says most about a constraint that disagrees with the prompt: a word of a value in JSON, or a
// sampled token in other text, from which at least 90% were removed. `null` if there is none.
export function strongestOverride({ masks, content }) {
  const values = scalarsOf(content);
  const isWord = ({ token, path, origin }) => /[\p{L}\p{N}]/u.test(token) && (values ? values.has(path) : origin === "sampled");
  const strongest = mostRemoved(masks.filter(isWord));
  return strongest && strongest.removed >= MOST ? strongest : null;
}

// Returns the pointers of the values of a JSON text that have no members and items. `null` if the text is not JSON.
function scalarsOf(text) {
  const pointers = new Set();
  const visit = (node) => {
    const children = node.members?.map(([, child]) => child) ?? node.items;
    if (children) children.forEach(visit);
    else pointers.add(node.pointer);
  };
  try {
    visit(parseJson(text));
    return pointers;
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return null;
  }
}

// Describes an override in a sentence.
export function overrideInWords(entry) {
  const place = placeOf(entry);
  const wanted = entry.top.filter((one) => !one.allowed).slice(0, 3).map((one) => `${spelt(one)} (${percent(one.probability)})`);
  return `${place ? `At ${place}, the` : "The"} constraint forbade ${percent(entry.removed)} of what the model wanted, `
    + `such as ${wanted.join(", ")}; it got ${spelt(entry)}.`;
}

// Returns the content before a token. `null` if the token is no content, or if it is a part of a character.
function contentBefore({ masks, content }, entry) {
  const output = Uint8Array.from(masks.filter((one) => one.end > one.start).flatMap((one) => one.bytes));
  const text = new TextDecoder().decode(output);
  const at = content === "" ? -1 : text.lastIndexOf(content);
  const encoder = new TextEncoder();
  const first = encoder.encode(text.slice(0, Math.max(0, at))).length;
  const last = first + encoder.encode(content).length;
  const start = entry.start - masks[0].start;
  if (at < 0 || entry.end === entry.start || start < first || start >= last) return null;
  return utf8(output.slice(first, start));
}

// Returns the text of bytes, or `null` if they are not UTF-8.
function utf8(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

// Returns the text of a token in quotes, or its bytes if they are no text.
function spelt({ token, bytes }) {
  return isPart({ token, bytes }) ? hexadecimal(bytes) : JSON.stringify(token);
}

const isPart = ({ token, bytes }) => token.includes("\uFFFD") && utf8(Uint8Array.from(bytes)) === null;

const hexadecimal = (bytes) => `<${bytes.map((byte) => byte.toString(16).toUpperCase().padStart(2, "0")).join(" ")}>`;

function legend() {
  return el("p", { class: "legend hint" },
    el("span", { class: "token forced", text: "forced: not chosen by the model" }),
    el("span", { class: "token half", text: "override: at least 50% removed" }),
    el("span", { class: "token most", text: "at least 90% removed" }),
    el("span", { text: "Removed: share of the model's probability that the constraint forbade." }));
}

function tokenSpan(entry) {
  const level = entry.removed >= MOST ? "most" : entry.removed >= HALF ? "half" : "";
  const text = entry.token === "" ? "(control)" : isPart(entry) ? hexadecimal(entry.bytes) : entry.token.replaceAll("\n", "↵\n");
  return el("span", {
    class: ["token", level, isForced(entry) ? "forced" : ""].filter(Boolean).join(" "),
    role: "option", tabindex: "-1", "aria-selected": "false",
    "aria-label": `${spelt(entry)}, ${originInWords(entry)}, ${percent(entry.removed)} removed`,
    "data-origin": entry.origin, "data-removed": entry.removed.toFixed(3), text,
  });
}

const isPlace = (entry) => entry.removed >= HALF;

// As in the table of `formwork run --show-masks`, a token within the token limit counts as sampled.
const isForced = (entry) => entry.origin !== "sampled" && entry.origin !== "token_limit";

const originInWords = ({ origin }) => (Object.hasOwn(ORIGINS, origin) ? ORIGINS[origin] : origin);

// Returns the place in the constraint: a JSON pointer, or rules of a grammar.
function placeOf({ path, rules }) {
  return typeof path === "string" ? path || "(root)" : (rules ?? []).join(", ");
}

function figures(entry) {
  const place = placeOf(entry);
  const rows = [
    ["Token", el("code", { text: spelt(entry) })],
    ...(place ? [["Place", el("code", { text: place })]] : []),
    ["Origin", originInWords(entry)],
    ["Allowed", typeof entry.allowed === "number" ? count(entry.allowed, "token") : "all, there is no constraint"],
    ["Probability", percent(entry.probability)],
    ["Removed", percent(entry.removed)],
  ];
  const terms = rows.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", {}, value)]);
  if (!entry.top.length) return [el("dl", {}, ...terms)];
  const isAmongTop = entry.top.some((one) => one.id === entry.id);
  const likeliest = isAmongTop ? entry.top : [...entry.top, { ...entry, allowed: true }];
  const table = el("table", { class: "likeliest" },
    el("caption", { text: "Likeliest tokens before the mask" }),
    el("thead", {}, el("tr", {}, ...["Token", "Probability", "Allowed"].map((name) => el("th", { scope: "col", text: name })))),
    el("tbody", {}, ...likeliest.map((one) => el("tr", { class: one.allowed ? "" : "refused" },
      el("td", {}, el("code", { text: spelt(one) }), one.id === entry.id ? " (chosen)" : null),
      el("td", {}, bar(one.probability), el("span", { class: "figure", text: percent(one.probability) })),
      el("td", { text: one.allowed ? "yes" : "no" })))));
  return [el("dl", {}, ...terms), table];
}
