// Settings, constraint and conversation, kept in local storage where the browser allows it.

const NAME = "formwork.page";

export const DEFAULTS = {
  settings: {
    model: "", system: "", temperature: "0.7", top_p: "", seed: "", max_tokens: "512",
    schema_in_prompt: true, masks: true, decisions: false, theme: "system",
  },
  constraint: { kind: "none", texts: {}, tools: "", tool_choice: "auto", explained: "" },
  decision: { type: "predicate", input: "", question: "", options: "" },
  draft: "",
  edit: null, // While a sent message is edited: its index, and the draft from before.
  results: {}, // Typed results of tool calls, by the id of the call.
  messages: [],
};

export const state = structuredClone(DEFAULTS);

// Copies members of known types from `from`, which may come from a file. Returns the number of messages that
// have an unknown form.
export function adopt(from) {
  if (typeof from !== "object" || from === null) return 0;
  for (const part of ["settings", "constraint", "decision"]) copyKnown(state[part], from[part], DEFAULTS[part]);
  state.constraint.texts = texts(state.constraint.texts);
  if (typeof from.draft === "string") state.draft = from.draft;
  if (typeof from.results === "object" && from.results !== null) state.results = texts(from.results);
  if (!Array.isArray(from.messages)) return 0;
  state.messages = from.messages.map(message).filter(Boolean);
  const { at, kept } = from.edit ?? {};
  state.edit = state.messages[at]?.role === "user" ? { at, kept: string(kept) } : null;
  return from.messages.length - state.messages.length;
}

function copyKnown(to, from, defaults) {
  for (const [name, value] of Object.entries(defaults)) {
    const given = from?.[name];
    if (typeof given === typeof value && given !== null && !Array.isArray(given)) to[name] = given;
  }
}

const string = (value) => (typeof value === "string" ? value : "");
const list = (value) => (Array.isArray(value) ? value : []);
const number = (value) => (Number.isFinite(value) ? value : null);
const texts = (object) => Object.fromEntries(Object.entries(object).filter(([, text]) => typeof text === "string"));

// Creates a message of the assistant without content.
export function newAnswer(constraint) {
  return {
    role: "assistant", content: "", reasoning: "", calls: [], masks: [], decisions: [], constraint, finish: null,
    closed: false, note: "", usage: null, seconds: null, first: null,
  };
}

function message(from) {
  if (from?.role === "user") return { role: "user", content: string(from.content) };
  if (from?.role === "tool") {
    return { role: "tool", tool_call_id: string(from.tool_call_id), content: string(from.content) };
  }
  if (from?.role !== "assistant") return null;
  return {
    ...newAnswer(constraint(from.constraint)),
    content: string(from.content),
    reasoning: string(from.reasoning),
    calls: list(from.calls).map((call) => ({
      id: string(call?.id), type: call?.type === "custom" ? "custom" : "function",
      name: string(call?.name), arguments: string(call?.arguments),
    })),
    masks: masks(from.masks),
    decisions: decisions(from.decisions),
    finish: typeof from.finish === "string" ? from.finish : null,
    closed: from.closed === true,
    note: string(from.note),
    usage: usage(from.usage),
    seconds: number(from.seconds),
    first: number(from.first),
  };
}

const constraint = (from) => ({ kind: string(from?.kind), text: string(from?.text) });

function usage(from) {
  const completion_tokens = number(from?.completion_tokens);
  if (completion_tokens === null) return null;
  return {
    completion_tokens, prompt_tokens: number(from.prompt_tokens) ?? 0,
    prompt_tokens_details: { cached_tokens: number(from.prompt_tokens_details?.cached_tokens) ?? 0 },
  };
}

const isByte = (value) => Number.isInteger(value) && value >= 0 && value < 256;

// Copies the known members of mask views. All tokens must have them, since each has its place in the text.
function masks(from) {
  const entries = list(from).map((entry) => ({
    token: string(entry?.token), id: number(entry?.id), bytes: list(entry?.bytes).filter(isByte),
    start: number(entry?.start), end: number(entry?.end), origin: string(entry?.origin), allowed: number(entry?.allowed),
    probability: number(entry?.probability), removed: number(entry?.removed),
    path: typeof entry?.path === "string" ? entry.path : null,
    rules: list(entry?.rules).filter((rule) => typeof rule === "string"),
    top: list(entry?.top).map((one) => ({
      token: string(one?.token), id: number(one?.id), bytes: list(one?.bytes).filter(isByte),
      probability: number(one?.probability), allowed: one?.allowed === true,
    })).filter((one) => one.probability !== null),
  }));
  const isWhole = ({ start, end, probability, removed }) => [start, end, probability, removed].every((value) => value !== null);
  return entries.every(isWhole) ? entries : [];
}

function decisions(from) {
  return list(from).filter((one) => typeof one?.path === "string").map((one) => ({
    path: one.path, kind: string(one.kind),
    probabilities: list(one.probabilities)
      .filter((option) => number(option?.probability) !== null && number(option.sampled) !== null)
      .map(({ value, type, probability, sampled }) => ({ value, type, probability, sampled })),
  }));
}

let saved = null; // The text in storage, as far as this tab knows.
let whenNotKept = () => {};

// Calls `action(what)` when something first cannot be kept.
export function onNotKept(action) {
  whenNotKept = action;
}

export function load() {
  try {
    saved = localStorage.getItem(NAME);
    adopt(JSON.parse(saved ?? "null"));
  } catch { /* Storage is off, or its content is from another version. */ }
  // A tab that changes nothing must not overwrite what another one has saved.
  saved = JSON.stringify(state);
}

// Calls `action` when another tab saves its state.
export function onOtherTab(action) {
  addEventListener("storage", ({ key, newValue }) => {
    if (key === NAME && newValue !== null) action();
  });
}

// Saves the state if this tab has changed it. If it is too large, mask views are left out, the oldest first.
export function save() {
  const text = JSON.stringify(state);
  if (text === saved) return;
  saved = text;
  if (write(text)) return;
  const answers = state.messages.filter((one) => one.masks?.length);
  for (let kept = answers.length >> 1; ; kept >>= 1) {
    const without = new Set(answers.slice(0, answers.length - kept));
    const messages = state.messages.map((one) => (without.has(one) ? { ...one, masks: [] } : one));
    if (write(JSON.stringify({ ...state, messages }))) return whenNotKept("the mask views of earlier answers");
    if (kept === 0) return whenNotKept("this conversation");
  }
}

function write(text) {
  try {
    localStorage.setItem(NAME, text);
    return true;
  } catch {
    return false;
  }
}
