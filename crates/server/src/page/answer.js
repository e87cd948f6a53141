// One answer of the model: its views (text, JSON, masks), reasoning, tool calls and figures.

import { createCalls } from "./calls.js";
import { count, el, tabs, uniqueId } from "./dom.js";
import { KINDS } from "./kinds.js";
import { createMasks, overrideInWords, strongestOverride } from "./masks.js";
import { jsonTree } from "./tree.js";

const VIEWS = [["text", "Text"], ["json", "JSON"], ["masks", "Masks"]];

// The caller fills `message`, and calls `add` with what it added. `results` is that of `createCalls`.
export function createAnswer(message, results) {
  const masks = createMasks(message);
  const text = document.createTextNode(message.content);
  const thought = document.createTextNode(message.reasoning);
  const views = {
    text: el("div", { class: "text", dir: "auto" }, text),
    json: el("div", {}),
    masks: masks.element,
  };
  const panels = {};
  const buttons = VIEWS.map(([view, label]) => {
    const id = uniqueId("view");
    const tab = el("button", {
      type: "button", role: "tab", id: `${id}-tab`, "data-view": view, "aria-controls": id,
      "aria-selected": String(view === "text"), tabindex: view === "text" ? "0" : "-1", text: label,
    });
    panels[id] = views[view];
    Object.assign(views[view], { id, hidden: view !== "text" });
    views[view].setAttribute("role", "tabpanel");
    views[view].setAttribute("aria-labelledby", tab.id);
    return tab;
  });
  const list = el("div", { class: "tabs small", role: "tablist", "aria-label": "Views of the answer" }, ...buttons);
  const reasoning = el("details", { class: "reasoning", hidden: !message.reasoning },
    el("summary", { text: "Reasoning" }), el("div", { class: "text", dir: "auto" }, thought));
  const calls = createCalls(message, results);
  const override = el("p", { class: "override", hidden: true });
  const notes = el("p", { class: "notes", hidden: true });
  const figures = el("span", { class: "hint" });
  const copy = el("button", { type: "button", class: "quiet", text: "Copy", hidden: true, onclick: () => copyText(message, copy) });
  const element = el("article", { class: "message answer", "aria-label": "Answer", "aria-busy": "true" },
    el("header", {}, el("span", { class: "role", text: "Assistant" }), list),
    reasoning, ...Object.values(views), calls.element, override, notes,
    el("footer", {}, figures, copy));

  let isFinished = false;
  let shown = "text";
  function show(view) {
    shown = view;
    if (view === "masks") masks.show();
    if (view !== "json") return;
    views.json.replaceChildren(isFinished
      ? jsonTree(message, goTo)
      : el("p", { class: "hint", text: "The tree appears when the answer is complete." }));
  }
  const select = tabs(list, { panels, onChange: (tab) => show(tab.dataset.view) });

  // Shows a token in the Masks view.
  function goTo(entry) {
    select(buttons[2]);
    masks.goTo(entry);
  }

  function showOverride() {
    const entry = strongestOverride(message);
    if (!entry) return;
    override.append(`${overrideInWords(entry)} `,
      el("button", { type: "button", class: "quiet", text: "Show in Masks", onclick: () => goTo(entry) }));
    override.hidden = false;
  }

  function add(added) {
    if (added.content) text.appendData(added.content);
    if (added.reasoning) {
      reasoning.hidden = false;
      thought.appendData(added.reasoning);
    }
    if (added.calls) calls.update();
    if (added.masks.length) masks.add(added.masks);
  }

  function finish() {
    isFinished = true;
    element.removeAttribute("aria-busy");
    calls.finish();
    if (shown === "json") show("json");
    showOverride();
    const words = [finishInWords(message), message.note].filter(Boolean).join(" ");
    notes.textContent = words;
    notes.hidden = !words;
    figures.textContent = figuresOf(message);
    copy.hidden = !message.content && !message.calls.length;
  }

  // Shows the view with this name, if it is one.
  const showView = (name) => buttons.filter((button) => button.dataset.view === name).forEach((button) => select(button));
  return { element, add, finish, updateFields: calls.updateFields, showView, view: () => shown };
}

// Describes an end that is not the model's own. Empty for others.
export function finishInWords(message) {
  if (message.closed) return "The output was closed early to stay within its token limit.";
  if (message.finish === "length") return "The output was cut off at its token limit.";
  return "";
}

function figuresOf({ usage, seconds, first, constraint }) {
  if (!usage) return "";
  const tokens = usage.completion_tokens;
  const kind = Object.hasOwn(KINDS, constraint.kind) && constraint.kind !== "none" ? [KINDS[constraint.kind].label] : [];
  const parts = [count(tokens, "token"), `${count(usage.prompt_tokens ?? 0, "prompt token")}`];
  const cached = usage.prompt_tokens_details?.cached_tokens;
  if (cached) parts[1] += ` (${cached} cached)`;
  if (first !== null) parts.push(`first after ${first.toFixed(2)} s`);
  // The time of the first token has the prompt in it.
  const later = seconds - (first ?? 0);
  if (later > 0 && tokens > 1) parts.push(`${((tokens - 1) / later).toFixed(1)} tokens per second after it`);
  return [...parts, ...kind].join(" · ");
}

async function copyText(message, button) {
  const text = message.content || JSON.stringify(message.calls, null, 2);
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copied = copySelection(text); // Without HTTPS, the page has no access to the clipboard.
    button.focus();
  }
  button.textContent = copied ? "Copied" : "Copying failed: select the text instead";
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

function copySelection(text) {
  const area = el("textarea", { "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
