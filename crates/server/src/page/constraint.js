// The constraint panel: edits the constraint, checks it while typing, explains and samples it.

import { ApiError, getJson } from "./api.js";
import { byId, count, debounce, el, fieldError } from "./dom.js";
import { EXAMPLES, TOOLS_EXAMPLE } from "./examples.js";
import { JsonError, lineAndColumn, nodeAt, offsetOf, parseJson, RawJson } from "./json.js";
import { save, state } from "./store.js";

const KINDS = {
  none: { label: "None" },
  json_schema: {
    label: "JSON Schema", json: true,
    fields: (text) => ({ response_format: { type: "json_schema", json_schema: { name: "output", schema: new RawJson(text) } } }),
  },
  gbnf: { label: "GBNF grammar", fields: (text) => ({ grammar: text }) },
  lark: { label: "Lark grammar", fields: (text) => ({ structured_outputs: { grammar: text } }) },
  regex: { label: "Regular expression", fields: (text) => ({ guided_regex: text.replace(/\n$/, "") }) },
  choices: {
    label: "Choices, one per line",
    fields: (text) => ({ guided_choice: text.split("\n").map((line) => line.replace(/\r$/, "")).filter((line) => line !== "") }),
  },
  json_object: { label: "Any JSON object" },
};

// Returns the request fields of the constraint, or an error with its place.
export function constraintFields() {
  const { kind, texts } = state.constraint;
  if (kind === "none") return { fields: {} };
  if (kind === "json_object") return { fields: { response_format: { type: "json_object" } } };
  const text = texts[kind] ?? "";
  if (!text.trim()) return { error: { message: "The text is empty. Type a constraint or choose an example." } };
  const error = KINDS[kind].json ? jsonError(text) : null;
  return error ? { error } : { fields: KINDS[kind].fields(text) };
}

// Returns the request fields of the tools, or an error with its place.
export function toolFields() {
  const { tools, tool_choice } = state.constraint;
  if (!tools.trim()) return { fields: {} };
  const error = jsonError(tools);
  if (error) return { error };
  const list = JSON.parse(tools);
  if (!Array.isArray(list)) return { error: { message: "expected a JSON list of tools" } };
  return { fields: list.length ? { tools: new RawJson(tools), tool_choice } : {} };
}

function jsonError(text) {
  try {
    parseJson(text);
    return null;
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const { message, line, column, offset } = error;
    return { message, line, column, offset };
  }
}

export function initConstraint() {
  const kind = byId("constraint-kind");
  const text = byId("constraint-text");
  kind.append(...Object.entries(KINDS).map(([value, { label }]) => el("option", { value, text: label })));
  kind.addEventListener("change", () => {
    state.constraint.kind = kind.value;
    showConstraint();
    save();
  });
  text.addEventListener("input", () => {
    state.constraint.texts[state.constraint.kind] = text.value;
    fieldError(text, "");
    changed();
  });
  byId("constraint-example").addEventListener("change", (event) => {
    const example = EXAMPLES[state.constraint.kind]?.[event.target.value];
    if (example) replaceText(text, example[1]);
    event.target.value = "";
  });
  byId("tools").addEventListener("input", () => {
    state.constraint.tools = byId("tools").value;
    fieldError(byId("tools"), "");
    checkToolsSoon();
    saveSoon();
  });
  byId("tools-example").addEventListener("click", () => replaceText(byId("tools"), TOOLS_EXAMPLE));
  byId("tool-choice").addEventListener("change", () => {
    state.constraint.tool_choice = byId("tool-choice").value;
    save();
  });
  byId("explain-text").addEventListener("input", debounce(explain, 300));
  byId("explain").addEventListener("click", explain);
  byId("sample").addEventListener("click", sample);
  showConstraint();
}

const saveSoon = debounce(save, 500);
const checkSoon = debounce(check, 300);
const checkToolsSoon = debounce(() => {
  const { error } = toolFields();
  if (error) fieldError(byId("tools"), error.line ? `line ${error.line}, column ${error.column}: ${error.message}` : error.message);
}, 300);

function changed() {
  checkSoon();
  saveSoon();
}

// Replaces the content of a text area so that the browser can undo it.
function replaceText(area, text) {
  area.focus();
  area.select();
  if (!document.execCommand("insertText", false, text)) {
    area.value = text;
    area.dispatchEvent(new Event("input"));
  }
}

// Shows the constraint of the state in the panel's controls, and checks it.
export function showConstraint() {
  if (!Object.hasOwn(KINDS, state.constraint.kind)) state.constraint.kind = "none";
  const { kind, texts, tools, tool_choice } = state.constraint;
  byId("constraint-kind").value = kind;
  byId("constraint-text").value = texts[kind] ?? "";
  byId("constraint-label").textContent = KINDS[kind].label;
  byId("constraint-field").hidden = !KINDS[kind].fields;
  const examples = EXAMPLES[kind] ?? [];
  byId("constraint-example").replaceChildren(el("option", { value: "", text: examples.length ? "Insert an example…" : "No examples" }),
    ...examples.map(([name], index) => el("option", { value: String(index), text: name })));
  byId("constraint-example").disabled = !examples.length;
  byId("tools").value = tools;
  byId("tool-choice").value = tool_choice;
  if (byId("tool-choice").selectedIndex < 0) byId("tool-choice").value = state.constraint.tool_choice = "auto";
  byId("explain-result").replaceChildren();
  byId("sample-result").replaceChildren();
  fieldError(byId("constraint-text"), "");
  check();
}

let checks = 0;

export async function check() {
  const turn = ++checks;
  const status = byId("constraint-status");
  const { fields, error } = constraintFields();
  if (error) return verdict("error", error.message, error);
  if (state.constraint.kind === "none") return verdict("none", "Any text is allowed.");
  if (!status.dataset.state) verdict("checking", "Checking…");
  try {
    const result = await getJson("v1/grammar/check", { body: withModel(fields) });
    if (turn === checks) report(result);
  } catch (failure) {
    if (turn === checks) verdict("error", failure.message);
  }
}

const withModel = (fields) => (state.settings.model ? { model: state.settings.model, ...fields } : fields);

function report(result) {
  if (!result.ok) return verdict("error", result.error.problem ?? result.error.message, placeOf(result.error), result.error.excerpt);
  const tokens = typeof result.minimum_tokens === "number" ? `, at least ${count(result.minimum_tokens, "token")}` : "";
  const states = typeof result.states === "number" ? `${count(result.states, "state")}. ` : "";
  verdict(result.warnings.length ? "warning" : "ok", `The constraint can be enforced. ${states}Shortest output${tokens}:`, null, result.shortest);
  for (const warning of result.warnings) byId("constraint-status").append(line(`Warning: ${warning.message}`, placeOf(warning)));
}

// Returns the place of an error or warning in the text, if there is one.
function placeOf({ line: at, column, pointer, message }) {
  const text = byId("constraint-text").value;
  if (at) return { line: at, column: column ?? 1, offset: offsetOf(text, at, column ?? 1) };
  if (pointer !== null && pointer !== undefined && state.constraint.kind === "json_schema") {
    const node = nodeAt(parseJson(text), pointer);
    return { pointer: pointer || "/", offset: node.start, end: node.end, ...lineAndColumn(text, node.start) };
  }
  const bytes = /offset (\d+)/.exec(message ?? "");
  if (state.constraint.kind !== "regex" || !bytes) return null;
  const before = new TextDecoder().decode(new TextEncoder().encode(text).slice(0, Number(bytes[1])));
  return { offset: before.length, ...lineAndColumn(text, before.length) };
}

function verdict(name, message, place = null, excerpt = null) {
  const status = byId("constraint-status");
  status.dataset.state = name;
  status.replaceChildren(line(message, place));
  if (excerpt) status.append(el("pre", { text: excerpt }));
}

function line(message, place) {
  if (!place?.line) return el("p", { text: message });
  const where = `${place.pointer ? `${place.pointer}, ` : ""}line ${place.line}, column ${place.column}: `;
  return el("p", {}, `${where}${message} `, el("button", { type: "button", class: "quiet", onclick: () => goTo(place) }, "Go to the place"));
}

function goTo({ offset, end }) {
  const area = byId("constraint-text");
  const lineEnd = area.value.indexOf("\n", offset);
  const last = end ?? (lineEnd < 0 ? area.value.length : lineEnd);
  const start = last > offset ? offset : Math.max(0, offset - 1);
  area.focus();
  area.setSelectionRange(start, Math.max(last, offset));
  const height = parseFloat(getComputedStyle(area).lineHeight);
  area.scrollTop = (area.value.slice(0, offset).split("\n").length - 3) * height;
}

async function ask(path, extra, target, show) {
  const { fields, error } = constraintFields();
  const output = byId(target);
  if (error) return output.replaceChildren(el("p", { text: error.message }));
  if (state.constraint.kind === "none") return output.replaceChildren(el("p", { text: "Choose a kind of constraint first." }));
  try {
    output.replaceChildren(...show(await getJson(path, { body: { ...withModel(fields), ...extra } })));
  } catch (failure) {
    if (!(failure instanceof ApiError)) throw failure;
    output.replaceChildren(el("p", { class: "field-error", text: failure.message }));
  }
}

// Explains what may come after the start of an output.
export async function explainText(text) {
  byId("constraint-panel").open = byId("explore").open = true;
  byId("explain-text").value = text;
  await explain();
  byId("explain-result").scrollIntoView({ block: "nearest" });
}

function explain() {
  const text = byId("explain-text").value;
  return ask("v1/grammar/explain", { text }, "explain-result", (result) => {
    const rest = new TextDecoder().decode(new TextEncoder().encode(text).slice(result.at));
    const first = result.matches
      ? `The text is the start of an output${result.may_end ? ", and the output may end here" : ""}.`
      : `The text leaves the constraint after ${count(result.at, "byte")}, at ${JSON.stringify(rest.slice(0, 40))}.`;
    const tokens = typeof result.tokens === "number" ? `${count(result.tokens, "token")} may follow.` : "";
    return [
      el("p", { text: `${first} ${tokens}` }),
      el("p", {}, result.bytes ? `${result.matches ? "Next" : "Expected there"}: ${result.bytes}` : ""),
      result.expected.length ? el("ul", {}, ...result.expected.slice(0, 20).map((one) => el("li", { text: one }))) : "",
    ];
  });
}

function sample() {
  return ask("v1/grammar/sample", { n: 3 }, "sample-result", ({ outputs }) => outputs.map((output) => el("pre", { text: output })));
}
