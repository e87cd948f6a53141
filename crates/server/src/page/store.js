// Settings, constraint and conversation, kept in local storage where the browser allows it.

const NAME = "formwork.page";

export const DEFAULTS = {
  settings: {
    model: "", system: "", temperature: "", top_p: "", seed: "", max_tokens: "512",
    schema_in_prompt: true, theme: "system",
  },
  constraint: { kind: "none", texts: {}, tools: "", tool_choice: "auto" },
  draft: "",
  messages: [],
};

export const state = structuredClone(DEFAULTS);

// Copies members of known types from `from`, which may come from a file.
export function adopt(from) {
  if (typeof from !== "object" || from === null) return;
  copyKnown(state.settings, from.settings, DEFAULTS.settings);
  copyKnown(state.constraint, from.constraint, DEFAULTS.constraint);
  for (const [kind, text] of Object.entries(state.constraint.texts)) {
    if (typeof text !== "string") delete state.constraint.texts[kind];
  }
  if (typeof from.draft === "string") state.draft = from.draft;
  if (Array.isArray(from.messages)) state.messages = from.messages.map(message).filter(Boolean);
}

function copyKnown(to, from, defaults) {
  for (const [name, value] of Object.entries(defaults)) {
    const given = from?.[name];
    if (typeof given === typeof value && given !== null && !Array.isArray(given)) to[name] = given;
  }
}

const string = (value) => (typeof value === "string" ? value : "");
const list = (value) => (Array.isArray(value) ? value : []);
const number = (value) => (typeof value === "number" ? value : null);

function message(from) {
  if (from?.role === "user") return { role: "user", content: string(from.content) };
  if (from?.role === "tool") {
    return { role: "tool", tool_call_id: string(from.tool_call_id), content: string(from.content) };
  }
  if (from?.role !== "assistant") return null;
  return {
    role: "assistant",
    content: string(from.content),
    reasoning: string(from.reasoning),
    calls: list(from.calls).map((call) => ({
      id: string(call?.id), type: call?.type === "custom" ? "custom" : "function",
      name: string(call?.name), arguments: string(call?.arguments),
    })),
    masks: list(from.masks).filter(isMask),
    finish: typeof from.finish === "string" ? from.finish : null,
    closed: from.closed === true,
    note: string(from.note),
    usage: number(from.usage?.completion_tokens) === null ? null : from.usage,
    seconds: number(from.seconds),
    first: number(from.first),
  };
}

function isMask(entry) {
  return typeof entry?.token === "string" && typeof entry.origin === "string"
    && typeof entry.removed === "number" && typeof entry.probability === "number"
    && Array.isArray(entry.top)
    && entry.top.every((one) => typeof one?.token === "string" && typeof one.probability === "number");
}

export function load() {
  try {
    adopt(JSON.parse(localStorage.getItem(NAME) ?? "null"));
  } catch { /* Storage is off, or its content is from another version. */ }
}

// Saves the state. If it is too large, saves it without mask views.
export function save() {
  try {
    localStorage.setItem(NAME, JSON.stringify(state));
  } catch {
    try {
      localStorage.setItem(NAME, JSON.stringify({
        ...state, messages: state.messages.map((one) => (one.masks ? { ...one, masks: [] } : one)),
      }));
    } catch { /* Nothing is kept. */ }
  }
}
