// Checks the constraint and the tools while they are typed, and shows errors at their places.

import { getJson } from "./api.js";
import { byId, count, debounce, el, fieldError } from "./dom.js";
import { JsonError, lineAndColumn, nodeAt, offsetOf, parseJson, placeInWords, RawJson } from "./json.js";
import { currentConstraint, fieldsOf, toolFields } from "./kinds.js";
import { withModel } from "./models.js";
import { state } from "./store.js";

const DELAY = 300; // Milliseconds without typing before a check.
const MOST_TOOLS = 32; // Tools whose parameters are checked while they are typed.

let constraintCheck = new AbortController();
let toolsCheck = new AbortController();

const checkSoon = debounce(checkConstraint, DELAY);
const checkToolsSoon = debounce(checkTools, DELAY);

// Notes that the constraint has changed: the last verdict no longer counts.
export function constraintChanged() {
  constraintCheck.abort();
  verdict("checking", "Checking…");
  checkSoon();
}

export async function checkConstraint() {
  constraintCheck.abort();
  constraintCheck = new AbortController();
  const { signal } = constraintCheck;
  const constraint = currentConstraint();
  const { fields, error } = fieldsOf(constraint);
  if (error) return verdict("error", error.message, error);
  if (constraint.kind === "none") return verdict("none", state.constraint.tools.trim() ? "Any text is allowed beside the calls of tools." : "Any text is allowed.");
  try {
    const result = await getJson("v1/grammar/check", { body: withModel(fields), signal });
    if (!signal.aborted) report(result, constraint);
  } catch (failure) {
    if (!signal.aborted) verdict("error", failure.message, placeOfTag(failure.param, constraint));
  }
}

function report(result, constraint) {
  if (!result.ok) {
    const place = placeOf(result.error, constraint);
    return verdict("error", (place && result.error.problem) || result.error.message, place, result.error.excerpt);
  }
  const tokens = typeof result.minimum_tokens === "number" ? `, at least ${count(result.minimum_tokens, "token")}` : "";
  verdict(result.warnings.length ? "warning" : "ok", `The constraint can be enforced. Shortest output${tokens}:`, null, result.shortest || "(empty)");
  // The places are shown in words, so the messages need no pointers.
  const lines = result.warnings.map((warning) => line(`Warning: ${warning.message.replace(/^#\S*: /, "")}`, placeOf(warning, constraint)));
  byId("constraint-status").prepend(...lines);
}

// Returns the place of an error or warning in the text of the constraint, if there is one.
function placeOf({ line: at, column, pointer, message, offset: bytes }, constraint) {
  const { kind, text } = constraint;
  if (at) return { line: at, column: column ?? 1, offset: offsetOf(text, at, column ?? 1) };
  if (kind === "json_schema" && typeof pointer === "string") return placeAt(pointer, text);
  if (kind === "tags") return placeOfTag(/^([\w.[\]]+): /.exec(message)?.[1], constraint);
  if (kind !== "regex" || typeof bytes !== "number") return null;
  const before = new TextDecoder().decode(new TextEncoder().encode(text).slice(0, bytes));
  return { offset: before.length, ...lineAndColumn(text, before.length) };
}

// Returns the place of a value in structural tags that the server names, such as `format.tags[0].content`.
function placeOfTag(path, { kind, text }) {
  if (kind !== "tags" || !path) return null;
  const keys = path.replace(/^structural_tag\.?/, "").split(/[.[\]]+/).filter(Boolean);
  return placeAt(keys.map((key) => `/${key}`).join(""), text);
}

// Returns the place of the value at a JSON pointer in a text, or of the nearest value around it.
function placeAt(pointer, text) {
  try {
    const node = nodeAt(parseJson(text), pointer);
    const start = node.nameStart ?? node.start;
    return { pointer, offset: start, end: node.end, ...lineAndColumn(text, start) };
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return null;
  }
}

function verdict(name, message, place = null, excerpt = null) {
  const status = byId("constraint-status");
  status.dataset.state = name;
  status.replaceChildren(line(message, place));
  if (excerpt) status.append(el("pre", { text: excerpt, tabindex: "0", role: "region", "aria-label": "Excerpt" }));
  // A screen reader hears one sentence, not all of it after each pause.
  const words = { checking: "", none: "", ok: "The constraint can be enforced.", warning: "The constraint can be enforced, with warnings." };
  byId("constraint-announcement").textContent = words[name] ?? `Error: ${message.slice(0, 200)}`;
}

function line(message, place) {
  if (!place?.line) return el("p", { text: message });
  return el("p", {}, `${where(place)}${message} `,
    el("button", { type: "button", class: "quiet", onclick: () => goTo(byId("constraint-text"), place) }, "Go to the place"));
}

const where = (place) => `${place.pointer === undefined ? "" : `${place.pointer || "(root)"}, `}${placeInWords(place)}`;

// Selects a place in a text area.
function goTo(area, { offset, end }) {
  const lineEnd = area.value.indexOf("\n", offset);
  const last = end ?? (lineEnd < 0 ? area.value.length : lineEnd);
  const start = last > offset ? offset : Math.max(0, offset - 1);
  // Browsers scroll to a caret when an area gets the focus, but not to a selection.
  area.setSelectionRange(start, start);
  area.blur();
  area.focus();
  area.setSelectionRange(start, Math.max(last, offset));
}

// Notes that the tools have changed.
export function toolsChanged() {
  toolsCheck.abort();
  fieldError(byId("tools"), "");
  checkToolsSoon();
}

// Checks the tools: first that they are JSON, then that the parameters of each can be enforced.
async function checkTools() {
  toolsCheck.abort();
  toolsCheck = new AbortController();
  const { signal } = toolsCheck;
  const { error } = toolFields();
  if (error) return fieldError(byId("tools"), `${placeInWords(error)}${error.message}`);
  const text = state.constraint.tools;
  const tools = text.trim() ? parseJson(text).items.slice(0, MOST_TOOLS) : [];
  for (const tool of tools) {
    const pointer = `${tool.pointer}/function/parameters`;
    const node = nodeAt(tool, pointer);
    if (node.pointer !== pointer) continue;
    try {
      const { ok, error: fault } = await getJson("v1/grammar/check", { body: withModel({ guided_json: new RawJson(node.text) }), signal });
      if (!ok) return fieldError(byId("tools"), `${where(placeAt(pointer + (fault.pointer ?? ""), text))}${fault.problem ?? fault.message}`);
    } catch (failure) {
      if (!signal.aborted) fieldError(byId("tools"), failure.message);
      return;
    }
  }
}
