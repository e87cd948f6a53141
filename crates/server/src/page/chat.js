// The conversation: sends messages, reads the streamed answer, regenerates, exports and imports.

import { ApiError, events, request } from "./api.js";
import { createAnswer } from "./answer.js";
import { chatBody, InputError } from "./body.js";
import { byId, count, el, fieldError, showAlert } from "./dom.js";
import { adopt, DEFAULTS, save, state } from "./store.js";

let abort = null; // The controller of the request that runs, if one does.
const typed = new Map(); // Typed results of tool calls, by the id of the call.
const results = new Set(); // Ids of the calls whose results are complete.
const answers = new WeakMap(); // Views of answers, by their messages.
const isWide = matchMedia("(min-width: 60rem)");

export function initChat({ reload }) {
  const prompt = byId("prompt");
  prompt.addEventListener("input", () => {
    state.draft = prompt.value;
    fieldError(prompt, "");
  });
  prompt.addEventListener("change", save);
  prompt.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  byId("send").addEventListener("click", send);
  byId("stop").addEventListener("click", () => abort?.abort());
  byId("regenerate").addEventListener("click", regenerate);
  byId("new").addEventListener("click", startNew);
  byId("export").addEventListener("click", exportFile);
  byId("import").addEventListener("click", () => byId("import-file").click());
  byId("import-file").addEventListener("change", (event) => importFile(event.target, reload));
  renderMessages();
}

export function renderMessages() {
  const list = byId("messages");
  list.replaceChildren(...state.messages.map((message) => {
    if (message.role !== "assistant") return plainMessage(message);
    if (answers.has(message)) answers.get(message).updateCalls();
    else answerOf(message).finish();
    return answers.get(message).element;
  }));
  if (!state.messages.length) list.append(el("p", { class: "empty hint", text: "Type a message to begin. The constraint applies to each answer." }));
  byId("prompt").value = state.draft;
  updateButtons();
  follow(state.messages.length > 0);
}

function plainMessage(message) {
  const name = message.role === "user" ? "You" : "Tool result";
  return el("article", { class: `message ${message.role}`, "aria-label": name },
    el("header", {}, el("span", { class: "role", text: name })),
    el("div", { class: "text", text: message.content }));
}

function answerOf(message) {
  const answer = createAnswer(message, {
    isOpen: () => state.messages.at(-1) === message,
    text: (call) => typed.get(call.id) ?? "",
    keep: (call, text) => typed.set(call.id, text),
    send: (call, text) => sendResult(message, call, text),
  });
  answers.set(message, answer);
  return answer;
}

function updateButtons() {
  const busy = abort !== null;
  byId("send").disabled = byId("new").disabled = byId("import").disabled = busy;
  byId("stop").disabled = !busy;
  byId("regenerate").disabled = busy || !state.messages.length;
  byId("regenerate").textContent = ["user", "tool"].includes(state.messages.at(-1)?.role) ? "Try again" : "Regenerate";
  if (document.activeElement?.disabled) byId("prompt").focus();
}

function send() {
  const text = byId("prompt").value;
  if (abort || !text.trim()) return;
  const before = [...state.messages];
  state.messages.push({ role: "user", content: text });
  generate(before, () => {
    // A message that was not answered returns to the text area, unless something else is there.
    if (state.draft) return false;
    state.draft = text;
    return true;
  }, () => (state.draft = ""));
}

function sendResult(message, call, text) {
  if (abort) return;
  typed.set(call.id, text);
  results.add(call.id);
  const missing = message.calls.filter((one) => !results.has(one.id));
  if (missing.length) {
    byId("stream-status").textContent = `Result kept. Still needed: ${count(missing.length, "result")}.`;
    return;
  }
  const before = [...state.messages];
  for (const one of message.calls) state.messages.push({ role: "tool", tool_call_id: one.id, content: typed.get(one.id) });
  generate(before, () => true);
}

function regenerate() {
  if (abort || !state.messages.length) return;
  const before = [...state.messages];
  if (state.messages.at(-1).role === "assistant") state.messages.pop();
  generate(before, () => true);
}

// Requests the next answer. If none arrives, `undo()` decides whether the messages become `before`.
async function generate(before, undo, begin = () => {}) {
  showAlert("");
  clearFieldErrors();
  let body;
  try {
    body = chatBody();
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    state.messages = before;
    showAlert(`${error.label}: ${error.message}`);
    fieldError(error.control, error.message);
    return;
  }
  begin();
  save();
  const message = {
    role: "assistant", content: "", reasoning: "", calls: [], masks: [], finish: null, closed: false,
    note: "", usage: null, seconds: null, first: null,
  };
  abort = new AbortController();
  renderMessages();
  const answer = answerOf(message);
  byId("messages").append(answer.element);
  follow(true);
  byId("stream-status").textContent = "Generating…";
  let failure = null;
  const started = performance.now();
  try {
    const response = await request("v1/chat/completions", { body, signal: abort.signal });
    for await (const event of events(response)) {
      const near = isAtEnd();
      take(event, message, answer, (performance.now() - started) / 1000);
      follow(near);
    }
  } catch (error) {
    failure = error;
  }
  message.seconds = (performance.now() - started) / 1000;
  abort = null;
  end(message, answer, failure, before, undo);
}

function take(event, message, answer, seconds) {
  if (event.usage) message.usage = event.usage;
  const choice = event.choices?.[0];
  if (!choice) return;
  const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta ?? {};
  const masks = Array.isArray(choice.mask_view) ? choice.mask_view : [];
  message.content += content ?? "";
  message.reasoning += reasoning ?? "";
  for (const piece of calls ?? []) {
    const call = (message.calls[piece.index] ??= { id: "", type: "function", name: "", arguments: "" });
    if (piece.id) call.id = piece.id;
    if (piece.type) call.type = piece.type;
    call.name += piece.function?.name ?? piece.custom?.name ?? "";
    call.arguments += piece.function?.arguments ?? piece.custom?.input ?? "";
  }
  for (const entry of masks) message.masks.push(entry);
  if (message.first === null && (content || reasoning || calls?.length || masks.length)) message.first = seconds;
  if (choice.finish_reason) message.finish = choice.finish_reason;
  if (choice.closed_by_budget) message.closed = true;
  answer.add({ content: content ?? "", reasoning: reasoning ?? "", calls: Boolean(calls?.length), masks });
}

function end(message, answer, failure, before, undo) {
  const status = byId("stream-status");
  const partial = message.content || message.reasoning || message.calls.length;
  const stopped = failure?.name === "AbortError";
  message.calls = message.calls.filter(Boolean);
  if (failure && !partial) {
    if (undo()) state.messages = before;
    renderMessages();
    status.textContent = stopped ? "Stopped before the answer began." : "The request failed.";
  } else {
    if (stopped) message.note = "You stopped this answer; it is incomplete.";
    else if (failure) message.note = `The answer is incomplete. ${failure.message}`;
    state.messages.push(message);
    answer.finish();
    updateButtons();
    status.textContent = stopped ? "Stopped." : failure ? "The answer is incomplete." : "The answer is complete.";
    follow(isAtEnd());
  }
  if (failure && !stopped) showFailure(failure);
  save();
}

function showFailure(error) {
  if (!(error instanceof ApiError)) {
    console.error(error);
    return showAlert(`The page failed: ${error.message}`);
  }
  if (error.status === 401) return; // `onUnauthorized` has shown what to do.
  showAlert(error.message);
  const control = controlOf(error.param);
  if (control) fieldError(control, error.message);
}

const CONTROLS = {
  messages: "prompt", response_format: "constraint-text", grammar: "constraint-text", structured_outputs: "constraint-text",
  guided_regex: "constraint-text", guided_choice: "constraint-text", tools: "tools", tool_choice: "tool-choice", model: "model",
  temperature: "temperature", top_p: "top_p", seed: "seed", max_tokens: "max_tokens", schema_in_prompt: "schema_in_prompt", "api-key": "api-key",
};

// Returns the control of a request field such as `tools[0].function.name`.
function controlOf(param) {
  const id = CONTROLS[/^[\w-]*/.exec(param ?? "")[0]];
  return id ? byId(id) : null;
}

function clearFieldErrors() {
  for (const id of new Set(Object.values(CONTROLS))) fieldError(byId(id), "");
}

function isAtEnd() {
  const list = byId("messages");
  if (!isWide.matches) return byId("send").getBoundingClientRect().top < innerHeight + 60;
  return list.scrollHeight - list.scrollTop - list.clientHeight < 60;
}

function follow(wanted) {
  if (!wanted) return;
  if (isWide.matches) byId("messages").scrollTop = byId("messages").scrollHeight;
  else byId("send").scrollIntoView({ block: "end" });
}

function startNew() {
  if (state.messages.length && !confirm("Discard this conversation? Export it first to keep it.")) return;
  state.messages = [];
  results.clear();
  typed.clear();
  showAlert("");
  byId("stream-status").textContent = "";
  renderMessages();
  byId("prompt").focus();
  save();
}

function exportFile() {
  const content = { format: "formwork-conversation", version: 1, exported: new Date().toISOString(), ...state };
  const url = URL.createObjectURL(new Blob([JSON.stringify(content, null, 2)], { type: "application/json" }));
  el("a", { href: url, download: `conversation-${content.exported.slice(0, 19).replaceAll(":", "")}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function importFile(input, reload) {
  const file = input.files[0];
  input.value = "";
  if (!file) return;
  let content;
  try {
    content = JSON.parse(await file.text());
  } catch (error) {
    return showAlert(`The file is not JSON: ${error.message}`);
  }
  if (content?.format !== "formwork-conversation" || !Array.isArray(content.messages)) {
    return showAlert("The file is not a conversation of this page: expected `format` to be `formwork-conversation`.");
  }
  if (state.messages.length && !confirm("Replace this conversation by the one in the file?")) return;
  results.clear();
  typed.clear();
  Object.assign(state, structuredClone(DEFAULTS));
  adopt(content);
  reload();
  save();
}
