// One answer of the model: its views (text, JSON, masks), reasoning, tool calls and figures.

import { explainText } from "./constraint.js";
import { count, el, tabs, uniqueId } from "./dom.js";
import { createMasks } from "./masks.js";
import { jsonTree } from "./tree.js";

const VIEWS = [["text", "Text"], ["json", "JSON"], ["masks", "Masks"]];

// The caller fills `message`. `results` offers fields for the results of tool calls: `isOpen()` is true
// if they can be sent, `text(call)` is the text of a field, `keep` and `send` receive a call and its text.
export function createAnswer(message, results) {
  const masks = createMasks({ onExplain: explainText });
  masks.add(message.masks);
  const text = document.createTextNode(message.content);
  const views = {
    text: el("div", { class: "text" }, text),
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
  const reasoning = el("details", { class: "reasoning", hidden: true }, el("summary", { text: "Reasoning" }), el("div", { class: "text" }));
  const calls = el("div", { class: "calls" });
  const notes = el("p", { class: "notes" });
  const figures = el("span", { class: "hint" });
  const copy = el("button", { type: "button", class: "quiet", text: "Copy", onclick: () => copyText(message, copy) });
  const element = el("article", { class: "message answer", "aria-label": "Answer" },
    el("header", {}, el("span", { class: "role", text: "Assistant" }), list),
    reasoning, ...Object.values(views), calls, notes,
    el("footer", {}, figures, copy));

  let finished = false;
  let shown = "text";
  function show(view) {
    shown = view;
    if (view === "masks") masks.show();
    if (view !== "json") return;
    views.json.replaceChildren(finished
      ? jsonTree(message.content, message.masks, goTo)
      : el("p", { class: "hint", text: "The tree appears when the answer is complete." }));
  }
  const select = tabs(list, { panels, onChange: (tab) => {
    show(tab.dataset.view);
    views[tab.dataset.view].scrollIntoView({ block: "nearest" });
  } });

  function goTo(path) {
    select(buttons[2]);
    masks.goTo(path);
  }

  function updateReasoning() {
    reasoning.hidden = !message.reasoning;
    reasoning.lastChild.textContent = message.reasoning;
  }

  function updateCalls() {
    const open = finished && message.finish === "tool_calls" && results.isOpen();
    calls.replaceChildren(...message.calls.map((call) => callBlock(call, open ? results : null)));
  }

  function add({ content = "", reasoning: thought = "", calls: called = false, masks: entries = [] }) {
    if (content) text.appendData(content);
    if (thought) updateReasoning();
    if (called) updateCalls();
    if (entries.length) {
      masks.add(entries);
      if (shown === "masks") masks.show();
    }
  }

  function finish() {
    finished = true;
    element.removeAttribute("aria-busy");
    updateReasoning();
    updateCalls();
    if (shown === "json") show("json");
    const words = [finishInWords(message), message.note].filter(Boolean).join(" ");
    notes.textContent = words;
    notes.hidden = !words;
    figures.textContent = figuresOf(message);
    copy.hidden = !message.content && !message.calls.length;
  }

  notes.hidden = copy.hidden = true;
  element.setAttribute("aria-busy", "true");
  return { element, add, finish, updateCalls };
}

function callBlock(call, results) {
  const block = el("details", { class: "call", open: true },
    el("summary", {}, "Call of ", el("code", { text: call.name })),
    el("pre", { text: indented(call.arguments) }));
  if (!results) return block;
  const id = uniqueId("result");
  const field = el("textarea", { id, rows: "2", class: "code", oninput: () => results.keep(call, field.value) });
  field.value = results.text(call);
  const button = el("button", { type: "button", onclick: () => results.send(call, field.value) }, "Send the result");
  block.append(el("div", { class: "field" }, el("label", { for: id, text: "Result of the tool" }), field),
    el("div", { class: "row" }, button));
  return block;
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function finishInWords(message) {
  if (message.closed) return "The output was closed early to stay within its token limit.";
  if (message.finish === "length") return "The output was cut off at its token limit.";
  return "";
}

function figuresOf({ usage, seconds, first }) {
  if (!usage) return "";
  const tokens = usage.completion_tokens;
  const parts = [count(tokens, "token"), `${count(usage.prompt_tokens ?? 0, "prompt token")}`];
  const cached = usage.prompt_tokens_details?.cached_tokens;
  if (cached) parts[1] += ` (${cached} cached)`;
  if (first !== null) parts.push(`first after ${first.toFixed(2)} s`);
  if (seconds > 0) parts.push(`${(tokens / seconds).toFixed(1)} tokens per second`);
  return parts.join(" · ");
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
