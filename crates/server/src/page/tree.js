// The JSON view of an answer: a tree of collapsible values. Each scalar reports its tokens.

import { count, el, percent } from "./dom.js";
import { JsonError, parseJson } from "./json.js";

// Returns the tree of a text, or the reason why it is not JSON. `goTo(pointer)` shows a value's tokens.
export function jsonTree(text, masks, goTo) {
  let root;
  try {
    root = parseJson(text);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return el("p", { class: "hint", text: `The text is not JSON: line ${error.line}, column ${error.column}: ${error.message}.` });
  }
  const byPath = new Map();
  for (const entry of masks) {
    if (!byPath.has(entry.path)) byPath.set(entry.path, []);
    byPath.get(entry.path).push(entry);
  }
  const note = el("p", { class: "hint tree-note", "aria-live": "polite", text: "Point at a value to see how it was chosen." });
  const report = (event) => {
    const scalar = event.target.closest?.(".scalar");
    if (scalar) note.textContent = scalar.dataset.note;
  };
  const tree = el("div", { class: "tree", onpointerover: report, onfocusin: report }, render(root, null, byPath, goTo));
  return el("div", {}, tree, note);
}

function render(node, name, byPath, goTo) {
  const label = name === null ? null : el("span", { class: "key", text: `${name}: ` });
  const children = node.members ?? node.items?.map((item, index) => [String(index), item]);
  if (!children) {
    return el("div", { class: "leaf" }, label, scalar(node, byPath.get(node.pointer) ?? [], goTo));
  }
  const size = node.members ? count(children.length, "member") : count(children.length, "item");
  const brackets = node.members ? "{ }" : "[ ]";
  return el("details", { open: true },
    el("summary", {}, label, el("span", { class: "hint", text: `${brackets} ${size}` })),
    el("div", { class: "branch" }, ...children.map(([key, child]) => render(child, key, byPath, goTo))));
}

function scalar(node, entries, goTo) {
  const note = describe(node, entries);
  const attributes = { class: `scalar ${node.type}`, text: node.text, "data-note": note, "data-path": node.pointer };
  if (!entries.length) return el("span", { ...attributes, tabindex: "0" });
  return el("button", { ...attributes, type: "button", title: "Show the tokens of this value", onclick: () => goTo(node.pointer) });
}

function describe(node, entries) {
  const place = node.pointer || "(root)";
  if (!entries.length) return `${place}: there is no mask view of this value.`;
  const allowed = entries.map((entry) => entry.allowed).filter((number) => typeof number === "number");
  const most = Math.max(...entries.map((entry) => entry.removed));
  return `${place}: ${count(entries.length, "token")}, chosen from ${range(allowed)}; `
    + `the constraint removed up to ${percent(most)}.`;
}

// Describes the numbers of allowed tokens, one for each token of a value.
function range(numbers) {
  if (!numbers.length) return "all tokens";
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  if (least === most) return `${count(least, "allowed token")}${numbers.length > 1 ? " each" : ""}`;
  if (numbers.length <= 4) return `${numbers.map((number) => number.toLocaleString("en")).join(", ")} allowed tokens`;
  return `${least.toLocaleString("en")} to ${most.toLocaleString("en")} allowed tokens each`;
}
