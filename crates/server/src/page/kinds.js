// The kinds of constraints, and the request fields of each.

import { JsonError, parseJson, RawJson } from "./json.js";
import { state } from "./store.js";

export const KINDS = {
  none: { label: "None" },
  json_schema: {
    label: "JSON Schema", json: true,
    fields: (text) => ({ response_format: { type: "json_schema", json_schema: { name: "output", schema: new RawJson(text) } } }),
  },
  gbnf: { label: "GBNF grammar", fields: (text) => ({ grammar: text }) },
  lark: { label: "Lark grammar", fields: (text) => ({ structured_outputs: { grammar: text } }) },
  regex: { label: "Regular expression", fields: (text) => ({ guided_regex: text.replace(/\n$/, "") }) },
  tags: { label: "Structural tags", json: true, fields: (text) => ({ structural_tag: new RawJson(text) }) },
  fields: { label: "Typed fields (YAML or JSON)", fields: (text) => ({ fields: text }) },
  choices: {
    label: "Choices, one per line",
    fields: (text) => ({ guided_choice: text.split("\n").map((line) => line.replace(/\r$/, "")).filter((line) => line !== "") }),
  },
  json_object: { label: "Any JSON object" },
};

// Returns the constraint of the panel: its kind and its text.
export function currentConstraint() {
  const { kind, texts } = state.constraint;
  return { kind, text: texts[kind] ?? "" };
}

// Returns the request fields of a constraint, or an error with its place.
export function fieldsOf({ kind, text }) {
  if (kind === "json_object") return { fields: { response_format: { type: "json_object" } } };
  if (kind === "none" || !Object.hasOwn(KINDS, kind)) return { fields: {} };
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
  const list = parseJson(tools).items;
  if (!list) return { error: { message: "expected a JSON list of tools" } };
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
