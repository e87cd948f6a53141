// Builds the body of a chat request from the conversation, the settings and the constraint.

import { byId } from "./dom.js";
import { placeInWords } from "./json.js";
import { currentConstraint, fieldsOf, toolFields } from "./kinds.js";
import { withModel } from "./models.js";
import { state } from "./store.js";

// An input that cannot be sent, found before the request.
export class InputError extends Error {
  constructor(control, label, message) {
    super(message);
    this.control = control;
    this.label = label;
  }
}

export function chatBody(history) {
  const { settings } = state;
  const body = { messages: messages(history), stream: true, stream_options: { include_usage: true } };
  if (settings.masks) body.mask_view = { top: 8 };
  if (!settings.schema_in_prompt) body.schema_in_prompt = false;
  for (const name of ["temperature", "top_p", "seed", "max_tokens"]) {
    const number = numberOf(name);
    if (number !== null) body[name] = number;
  }
  const constraint = fieldsOf(currentConstraint());
  if (constraint.error) throw new InputError(byId("constraint-text"), "Constraint", located(constraint.error));
  const tools = toolFields();
  if (tools.error) throw new InputError(byId("tools"), "Tools", located(tools.error));
  // Without a constraint there are no choices.
  if (settings.decisions && Object.keys(constraint.fields).length) body.decisions = true;
  return withModel({ ...body, ...constraint.fields, ...tools.fields });
}

const located = (error) => `${placeInWords(error)}${error.message}`;

function numberOf(name) {
  const text = state.settings[name].trim();
  if (text === "") return null;
  const number = Number(text);
  const label = byId(name).labels[0].textContent;
  if (!Number.isFinite(number)) throw new InputError(byId(name), label, `expected a number, found "${text}"`);
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) {
    throw new InputError(byId(name), label, `expected a number of at most ${Number.MAX_SAFE_INTEGER}`);
  }
  return number;
}

function messages(history) {
  const { system } = state.settings;
  const start = system.trim() ? [{ role: "system", content: system }] : [];
  return [...start, ...history.map(wireMessage)];
}

function wireMessage(message) {
  if (message.role !== "assistant") return message;
  const wire = { role: "assistant", content: message.content };
  if (message.reasoning) wire.reasoning_content = message.reasoning;
  // Calls of an answer that was cut off have no complete arguments.
  if (message.finish === "tool_calls" && message.calls.length) {
    wire.tool_calls = message.calls.map(({ id, type, name, arguments: text }) => (type === "custom"
      ? { id, type, custom: { name, input: text } }
      : { id, type: "function", function: { name, arguments: text } }));
    if (!message.content) wire.content = null;
  }
  return wire;
}
