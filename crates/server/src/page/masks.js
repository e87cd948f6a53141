// The Masks view of an answer: its tokens, marked by what the constraint did to them, and a panel
// with the figures of the token under the pointer or the focus.

import { bar, count, el, percent } from "./dom.js";

const HALF = 0.5;
const MOST = 0.9;

const ORIGINS = {
  sampled: "sampled from the allowed tokens",
  only_token: "appended as the only allowed token",
  only_text: "appended because the constraint allowed a single text",
  reasoning_budget: "appended because the reasoning had used up its budget",
  token_limit: "sampled from the tokens that complete the output within its token limit",
};

// The element with the id `token-panel` is the panel of the view that was used last.
let activePanel = null;

// `onExplain(text)` receives the output before a token, to explain what may come next.
export function createMasks({ onExplain }) {
  const entries = [];
  let current = -1;
  const summary = el("p", { class: "summary" });
  const previous = el("button", { type: "button", onclick: () => jump(-1) }, "Previous place where most was removed");
  const next = el("button", { type: "button", onclick: () => jump(1) }, "Next place where most was removed");
  const position = el("span", { class: "hint", role: "status" });
  const list = el("div", { class: "tokens", role: "listbox", "aria-label": "Tokens of the answer", "aria-orientation": "horizontal" });
  const panel = el("div", { class: "token-panel" }, el("p", { class: "hint", text: "Point at a token to see its figures." }));
  const element = el("div", { class: "masks" }, summary,
    el("div", { class: "row start middle" }, previous, next, position), legend(),
    el("div", { class: "masks-body" }, list, panel));

  const spans = () => list.children;
  const isPlace = (entry) => entry.removed >= HALF;

  function activate() {
    if (activePanel === panel) return;
    activePanel?.removeAttribute("id");
    panel.id = "token-panel";
    activePanel = panel;
  }

  function select(index, focus = false) {
    if (!entries[index]) return;
    activate();
    if (spans()[current]) {
      spans()[current].tabIndex = -1;
      spans()[current].setAttribute("aria-selected", "false");
    }
    current = index;
    const span = spans()[index];
    span.tabIndex = 0;
    span.setAttribute("aria-selected", "true");
    if (focus) {
      span.focus();
      span.scrollIntoView({ block: "nearest" });
    }
    panel.replaceChildren(...figures(entries[index]), explainButton(index));
  }

  function explainButton(index) {
    const bytes = entries.slice(0, index).filter((entry) => entry.end > entry.start).flatMap((entry) => entry.bytes);
    const before = new TextDecoder().decode(new Uint8Array(bytes));
    return el("button", { type: "button", onclick: () => onExplain(before) }, "Explain what may come here");
  }

  function jump(step) {
    const places = entries.map((entry, index) => (isPlace(entry) ? index : -1)).filter((index) => index >= 0);
    if (!places.length) return;
    // After the last place comes the first one.
    const target = step > 0
      ? places.find((index) => index > current) ?? places[0]
      : places.findLast((index) => index < current) ?? places.at(-1);
    select(target);
    spans()[target].scrollIntoView({ block: "nearest" });
    const { token, removed } = entries[target];
    position.textContent = `Place ${places.indexOf(target) + 1} of ${places.length}: ${JSON.stringify(token)}, ${percent(removed)} removed`;
  }

  // Returns the token that is nearest to the current one in the line above or below.
  function inNextLine(step) {
    const from = spans()[current].getBoundingClientRect();
    let best = current;
    let bestLine = null;
    let bestDistance = Infinity;
    for (let index = current + step; index >= 0 && index < entries.length; index += step) {
      const box = spans()[index].getBoundingClientRect();
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
    if (!move) return;
    event.preventDefault();
    select(Math.min(entries.length - 1, Math.max(0, move())), true);
  });
  for (const kind of ["pointerover", "focusin", "click"]) {
    list.addEventListener(kind, (event) => {
      const span = event.target.closest(".token");
      if (span) select([...spans()].indexOf(span), kind === "click");
    });
  }

  function add(more) {
    for (const entry of more) {
      entries.push(entry);
      list.append(tokenSpan(entry));
    }
    if (more.length && current < 0) spans()[0].tabIndex = 0;
    const others = entries.filter(isForced).length;
    const places = entries.filter(isPlace).length;
    summary.textContent = entries.length
      ? `${count(entries.length, "token")}, ${others} not sampled; the constraint removed at least 50% at ${count(places, "place")}`
      : "There is no mask view of this answer.";
    list.hidden = panel.hidden = entries.length === 0;
    previous.disabled = next.disabled = places === 0;
  }

  // Selects the first token, at the first place where most was removed if there is one.
  function show() {
    activate();
    if (current < 0) select(Math.max(0, entries.findIndex(isPlace)));
  }

  add([]);
  return { element, entries, add, show, goTo: (path) => select(entries.findIndex((entry) => entry.path === path), true) };
}

function legend() {
  return el("p", { class: "legend hint" },
    el("span", { class: "token forced", text: "not sampled" }),
    el("span", { class: "token half", text: "at least 50% removed" }),
    el("span", { class: "token most", text: "at least 90% removed" }));
}

function tokenSpan(entry) {
  const level = entry.removed >= MOST ? "most" : entry.removed >= HALF ? "half" : "";
  const forced = isForced(entry) ? "forced" : "";
  const text = entry.token === "" ? "(control)" : entry.token.replaceAll("\n", "↵\n");
  return el("span", {
    class: ["token", level, forced].filter(Boolean).join(" "),
    role: "option", tabindex: "-1", "aria-selected": "false",
    "aria-label": `${JSON.stringify(entry.token)}, ${originInWords(entry)}, ${percent(entry.removed)} removed`,
    "data-origin": entry.origin, "data-removed": entry.removed.toFixed(3), text,
  });
}

// As in the table of `formwork run --show-masks`, a token within the token limit counts as sampled.
const isForced = (entry) => entry.origin !== "sampled" && entry.origin !== "token_limit";

const originInWords = (entry) => ORIGINS[entry.origin] ?? entry.origin;

function figures(entry) {
  const allowed = typeof entry.allowed === "number" ? count(entry.allowed, "token") : "all, there is no constraint";
  const place = typeof entry.path === "string" ? [["Place", el("code", { text: entry.path || "(root)" })]] : [];
  const rows = [
    ["Token", el("code", { text: JSON.stringify(entry.token) })],
    ...place,
    ["Origin", originInWords(entry)],
    ["Allowed", allowed],
    ["Probability", percent(entry.probability)],
    ["Removed", percent(entry.removed)],
  ];
  const terms = rows.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", {}, value)]);
  if (!entry.top.length) return [el("dl", {}, ...terms)];
  const table = el("table", { class: "likeliest" },
    el("caption", { text: "Likeliest tokens before the mask" }),
    el("thead", {}, el("tr", {}, ...["Token", "Probability", "Allowed"].map((name) => el("th", { scope: "col", text: name })))),
    el("tbody", {}, ...entry.top.map((one) => el("tr", { class: one.allowed ? "" : "refused" },
      el("td", {}, el("code", { text: JSON.stringify(one.token) }), one.id === entry.id ? " (chosen)" : null),
      el("td", {}, bar(one.probability), el("span", { class: "figure", text: percent(one.probability) })),
      el("td", { text: one.allowed ? "yes" : "no" })))));
  return [el("dl", {}, ...terms), table];
}
