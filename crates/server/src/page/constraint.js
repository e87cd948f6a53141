// The constraint panel: edits the constraint and the tools, explains and samples outputs.

import { checkConstraint, constraintChanged, toolsChanged } from "./check.js";
import { byId, debounce, el, fieldError, replaceText } from "./dom.js";
import { EXAMPLES, TOOLS_EXAMPLE } from "./examples.js";
import { clear, explain, sample } from "./explain.js";
import { currentConstraint, KINDS } from "./kinds.js";
import { save, state } from "./store.js";

const saveSoon = debounce(save, 500);
const explainSoon = debounce(explainTyped, 300);

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
    clearResults();
    constraintChanged();
    saveSoon();
  });
  byId("insert-example").addEventListener("click", () => {
    const example = EXAMPLES[state.constraint.kind]?.[byId("constraint-example").value];
    if (example) replaceText(text, example[1]);
  });
  byId("tools").addEventListener("input", () => {
    state.constraint.tools = byId("tools").value;
    toolsChanged();
    saveSoon();
  });
  byId("tools-example").addEventListener("click", () => replaceText(byId("tools"), TOOLS_EXAMPLE));
  byId("tool-choice").addEventListener("change", () => {
    state.constraint.tool_choice = byId("tool-choice").value;
    fieldError(byId("tool-choice"), "");
    save();
  });
  byId("explain-text").addEventListener("input", () => {
    state.constraint.explained = byId("explain-text").value;
    explainSoon();
    saveSoon();
  });
  byId("explain").addEventListener("click", explainTyped);
  byId("sample").addEventListener("click", sample);
  showConstraint();
}

// Shows the constraint of the state in the panel's controls, and checks it.
export function showConstraint() {
  if (!Object.hasOwn(KINDS, state.constraint.kind)) state.constraint.kind = "none";
  const { kind, texts, tools, tool_choice, explained } = state.constraint;
  byId("constraint-kind").value = kind;
  byId("constraint-text").value = texts[kind] ?? "";
  byId("constraint-label").textContent = KINDS[kind].label;
  byId("constraint-field").hidden = !KINDS[kind].fields;
  const examples = EXAMPLES[kind] ?? [];
  byId("constraint-example").replaceChildren(...examples.map(([name], index) => el("option", { value: String(index), text: name })));
  byId("example-choice").hidden = !examples.length;
  byId("tools").value = tools;
  byId("tool-choice").value = tool_choice;
  if (byId("tool-choice").selectedIndex < 0) byId("tool-choice").value = state.constraint.tool_choice = "auto";
  byId("explain-text").value = explained;
  clearResults();
  fieldError(byId("constraint-text"), "");
  checkConstraint();
}

function clearResults() {
  clear(byId("explain-result"));
  clear(byId("sample-result"));
}

function explainTyped() {
  return explain(currentConstraint(), state.constraint.explained, byId("explain-result"));
}
