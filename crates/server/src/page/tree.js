// The JSON view of an answer: a tree of collapsible values. Each scalar reports its tokens.

import { count, el, percent } from "./dom.js";
import { JsonError, parseJson, placeInWords } from "./json.js";
import { mostRemoved, overrideInWords } from "./masks.js";

const KINDS = { member: "Among the allowed members", end: "Among the end and another item" };

// Returns the tree of an answer, or the reason why it is not JSON. `goTo(entry)` shows a token.
export function jsonTree({ content: text, masks, decisions }, goTo) {
  if (!text) return el("p", { class: "hint", text: "The answer has no text." });
  let root;
  try {
    root = parseJson(text);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const reason = `The text cannot be shown as a tree: ${placeInWords(error)}${error.message}.`;
    return el("div", {}, el("p", { class: "hint", text: reason }), ...decisions.map((one) => el("p", { text: choice(one) })));
  }
  const facts = { masks: Map.groupBy(masks, (entry) => entry.path), decisions: Map.groupBy(decisions, (one) => one.path) };
  const note = el("p", { class: "hint tree-note", text: "Point at a value to see how it was chosen." });
  const report = (event) => {
    const value = event.target.closest?.("[data-note]");
    if (value) note.textContent = value.dataset.note;
  };
  const tree = el("div", { class: "tree", onpointerover: report, onfocusin: report }, render(root, null, facts, goTo));
  return el("div", {}, tree, note);
}

function render(node, name, facts, goTo) {
  const label = name === null ? null : el("span", { class: "key", text: `${name}: ` });
  const children = node.members ?? node.items?.map((item, index) => [String(index), item]);
  if (!children) {
    return el("div", { class: "leaf" }, label, scalar(node, facts, goTo));
  }
  const size = node.members ? count(children.length, "member") : count(children.length, "item");
  const brackets = node.members ? "{ }" : "[ ]";
  return el("details", { open: true },
    el("summary", { "data-note": choices(node.pointer, facts).join(" ") || null }, label, el("span", { class: "hint", text: `${brackets} ${size}` })),
    el("div", { class: "branch" }, ...children.map(([key, child]) => render(child, key, facts, goTo))));
}

function scalar(node, facts, goTo) {
  const entries = facts.masks.get(node.pointer) ?? [];
  const note = [describe(node, entries), ...choices(node.pointer, facts)].join(" ");
  const attributes = { class: `scalar ${node.type}`, text: node.text, "data-note": note, "aria-description": note, "data-path": node.pointer };
  if (!entries.length) return el("span", { ...attributes, tabindex: "0" });
  return el("button", { ...attributes, type: "button", title: "Show the tokens of this value in Masks", onclick: () => goTo(mostRemoved(entries)) });
}

function describe(node, entries) {
  const place = node.pointer || "(root)";
  if (!entries.length) return `${place}: there is no mask view of this value.`;
  const allowed = entries.map((entry) => entry.allowed).filter((number) => typeof number === "number");
  const most = mostRemoved(entries);
  return `${place}: ${count(entries.length, "token")}, chosen from ${range(allowed)}. `
    + (most.removed >= 0.5 ? overrideInWords(most) : `The constraint removed up to ${percent(most.removed)} of what the model wanted.`);
}

// Describes the measured choices at a place.
function choices(pointer, facts) {
  return (facts.decisions.get(pointer) ?? []).map(choice);
}

function choice({ kind, probabilities }) {
  const options = probabilities.toSorted((a, b) => b.probability - a.probability)
    .map((one) => `${option(one, kind)} ${percent(one.probability)}`);
  return `${KINDS[kind] ?? "Among the allowed options"}: ${options.join(", ")}.`;
}

function option({ value, type }, kind) {
  if (type !== undefined) return `any ${type}`;
  if (kind === "member" && value === null) return "the end";
  if (kind === "end") return value ? "the end" : "another item";
  return JSON.stringify(value);
}

// Describes the numbers of allowed tokens, one for each token of a value.
function range(numbers) {
  if (!numbers.length) return "all tokens";
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  if (least === most) return `${count(least, "allowed token")}${numbers.length > 1 ? " each" : ""}`;
  if (numbers.length <= 4) return `${numbers.map((number) => number.toLocaleString("en")).join(", ")} allowed tokens`;
  return `${least.toLocaleString("en")} to ${most.toLocaleString("en")} allowed tokens each`;
}
