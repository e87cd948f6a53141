// The conversation: sends messages and results of tools, regenerates and edits.

import { ApiError, request } from "./api.js";
import { createAnswer, finishInWords } from "./answer.js";
import { chatBody, InputError } from "./body.js";
import { byId, count, el, fieldError, isPlain, showAlert } from "./dom.js";
import { exportFile, importFile } from "./files.js";
import { follow, followAgain } from "./follow.js";
import { currentConstraint } from "./kinds.js";
import { newAnswer, save, state } from "./store.js";
import { readAnswer } from "./stream.js";

let abort = null; // The controller of the request that runs, if one does.
const sent = new Set(); // Ids of the calls whose results are complete.
const answers = new WeakMap(); // Views of answers, by their messages.

export function initChat({ reload }) {
  const prompt = byId("prompt");
  prompt.addEventListener("input", () => {
    state.draft = prompt.value;
    fieldError(prompt, "");
  });
  prompt.addEventListener("change", save);
  prompt.addEventListener("keydown", (event) => {
    // The key that ends the input of a composed character sends nothing; Safari tells it by its code alone.
    const isComposing = event.isComposing || event.keyCode === 229;
    if (event.key !== "Enter" || event.shiftKey || isComposing || !isPlain(event)) return;
    event.preventDefault();
    send();
  });
  byId("panel-chat").addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isPlain(event)) return;
    if (abort) abort.abort();
    else if (state.edit) cancelEdit();
  });
  byId("send").addEventListener("click", send);
  byId("stop").addEventListener("click", () => abort?.abort());
  byId("regenerate").addEventListener("click", regenerate);
  byId("cancel-edit").addEventListener("click", cancelEdit);
  byId("new").addEventListener("click", startNew);
  byId("export").addEventListener("click", exportFile);
  byId("import").addEventListener("click", () => byId("import-file").click());
  byId("import-file").addEventListener("change", async (event) => {
    const isTaken = await importFile(event.target, () => abort !== null);
    if (!isTaken) return;
    sent.clear();
    reload();
    save();
  });
  renderMessages();
}

export function renderMessages() {
  const list = byId("messages");
  const hadFocus = list.contains(document.activeElement);
  list.replaceChildren(...state.messages.map((message) => {
    if (message.role !== "assistant") return plainMessage(message);
    if (answers.has(message)) answers.get(message).updateFields();
    else answerOf(message).finish();
    return answers.get(message).element;
  }));
  if (!state.messages.length) list.append(el("p", { class: "empty hint", text: "Type a message to begin. The constraint applies to each answer." }));
  byId("prompt").value = state.draft;
  updateButtons();
  if (hadFocus && !list.contains(document.activeElement)) byId("prompt").focus();
  if (state.messages.length) followAgain();
}

function plainMessage(message) {
  const isUser = message.role === "user";
  const name = isUser ? "You" : "Tool result";
  const edit = isUser && el("button", {
    type: "button", class: "quiet edit", text: "Edit", "aria-label": `Edit: ${message.content.slice(0, 60)}`,
    onclick: () => beginEdit(message),
  });
  return el("article", { class: `message ${message.role}`, "aria-label": name },
    el("header", {}, el("span", { class: "role", text: name }), edit || null),
    el("div", { class: "text", dir: "auto", text: message.content }));
}

function answerOf(message) {
  const answer = createAnswer(message, {
    isOpen: () => state.messages.at(-1) === message,
    text: (call) => state.results[call.id] ?? "",
    keep: (call, text) => (state.results[call.id] = text),
    isKept: (call) => sent.has(call.id),
    send: (call, text) => sendResult(message, call, text),
  });
  answers.set(message, answer);
  return answer;
}

// Marks the message that is being edited.
function markEdited() {
  for (const [index, element] of [...byId("messages").children].entries()) element.classList.toggle("edited", index === state.edit?.at);
}

function updateButtons() {
  markEdited();
  const isBusy = abort !== null;
  byId("send").disabled = byId("new").disabled = byId("import").disabled = isBusy;
  byId("stop").disabled = !isBusy;
  byId("cancel-edit").hidden = !state.edit;
  byId("cancel-edit").disabled = isBusy;
  byId("regenerate").disabled = isBusy || state.edit !== null || !state.messages.length;
  const isUnanswered = !isBusy && ["user", "tool"].includes(state.messages.at(-1)?.role);
  byId("regenerate").textContent = isUnanswered ? "Try again" : "Regenerate";
  for (const button of document.querySelectorAll("#messages .edit")) button.disabled = isBusy || state.edit !== null;
  if (document.activeElement?.disabled) byId("prompt").focus();
}

function say(text) {
  byId("stream-status").textContent = text;
}

// Puts a sent message into the text area. Sending it then replaces the message and all after it.
function beginEdit(message) {
  state.edit = { at: state.messages.indexOf(message), kept: state.draft };
  byId("prompt").value = state.draft = message.content;
  say("Sending replaces the message and everything after it.");
  updateButtons();
  byId("prompt").focus();
  save();
}

// Cancels the edit. The text that was in the text area before returns to it.
function cancelEdit() {
  byId("prompt").value = state.draft = state.edit.kept;
  state.edit = null;
  say("");
  updateButtons();
  byId("prompt").focus();
  save();
}

function send() {
  const text = state.draft;
  if (abort || !text.trim()) return;
  const { edit } = state;
  const last = state.messages.at(-1);
  const isWaiting = !edit && last?.finish === "tool_calls" && last.calls.some(({ id }) => state.results[id]);
  if (isWaiting && !confirm("The results of the calls are not sent yet. Send the message without them?")) return;
  const history = [...state.messages.slice(0, edit?.at), { role: "user", content: text }];
  generate(history, {
    begin() {
      state.draft = edit?.kept ?? "";
      state.edit = null;
    },
    // A message that was not answered returns to the text area, unless something else is there.
    undo() {
      if (edit) state.edit = { at: edit.at, kept: state.draft };
      else if (state.draft) return false;
      state.draft = text;
      return true;
    },
  });
}

function sendResult(message, call, text) {
  if (abort) return;
  state.results[call.id] = text;
  sent.add(call.id);
  const missing = message.calls.filter((one) => !sent.has(one.id));
  if (missing.length) {
    answers.get(message).updateFields();
    return say(`Result kept. Still needed: ${count(missing.length, "result")}.`);
  }
  const results = message.calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: state.results[id] }));
  generate([...state.messages, ...results]);
}

function regenerate() {
  if (abort || !state.messages.length) return;
  const last = state.messages.at(-1);
  if (last.role === "assistant") generate(state.messages.slice(0, -1), { view: answers.get(last).view() });
  else generate(state.messages);
}

// Requests the answer to a history, and shows it in a view. If none arrives and `undo()` returns true, the conversation
// is as before.
async function generate(history, { begin = () => {}, undo = () => true, view = "text" } = {}) {
  showAlert("");
  clearFieldErrors();
  let body;
  try {
    body = chatBody(history);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    showAlert(`${error.label}: ${error.message}`);
    fieldError(error.control, error.message);
    return;
  }
  const before = state.messages;
  const message = newAnswer(currentConstraint());
  const started = performance.now();
  let failure = null;
  let answer = null;
  abort = new AbortController();
  try {
    begin();
    state.messages = history;
    save();
    renderMessages();
    answer = answerOf(message);
    byId("messages").append(answer.element);
    answer.showView(view);
    followAgain();
    say("Generating…");
    const response = await request("v1/chat/completions", { body, signal: abort.signal });
    await readAnswer(response, message, started, (added) => {
      answer.add(added);
      follow();
    });
  } catch (error) {
    failure = error;
  } finally {
    abort = null;
  }
  message.seconds = (performance.now() - started) / 1000;
  message.calls = message.calls.filter(Boolean);
  end(message, answer, failure, () => undo() && (state.messages = before));
}

function end(message, answer, failure, undo) {
  const isPartial = message.content || message.reasoning || message.calls.length;
  const isStopped = failure?.name === "AbortError";
  if (failure && !isPartial) {
    undo();
    renderMessages();
    say(isStopped ? "Stopped before the answer began." : "The request failed.");
  } else {
    if (isStopped) message.note = "You stopped this answer; it is incomplete.";
    else if (failure) message.note = `The answer is incomplete. ${failure.message}`;
    state.messages.push(message);
    answer.finish();
    updateButtons();
    say(isStopped ? "Stopped." : failure ? "The answer is incomplete." : finishInWords(message) || "The answer is complete.");
    follow();
  }
  if (failure && !isStopped) showFailure(failure);
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
  if (!control) return;
  fieldError(control, error.message);
  control.scrollIntoView({ block: "nearest" });
}

const CONTROLS = {
  messages: "prompt", response_format: "constraint-text", grammar: "constraint-text", structured_outputs: "constraint-text",
  structural_tag: "constraint-text", guided_regex: "constraint-text", guided_choice: "constraint-text", tools: "tools",
  tool_choice: "tool-choice", model: "model", temperature: "temperature", top_p: "top_p", seed: "seed", max_tokens: "max_tokens",
  schema_in_prompt: "schema_in_prompt", mask_view: "masks", decisions: "decisions", "api-key": "api-key",
};

// Returns the control of a request field such as `tools[0].function.name`.
function controlOf(param) {
  if (/^messages\[0\]/.test(param ?? "") && state.settings.system.trim()) return byId("system");
  const name = /^[\w-]*/.exec(param ?? "")[0];
  return Object.hasOwn(CONTROLS, name) ? byId(CONTROLS[name]) : null;
}

function clearFieldErrors() {
  for (const id of new Set([...Object.values(CONTROLS), "system"])) fieldError(byId(id), "");
}

function startNew() {
  if (state.messages.length && !confirm("Discard this conversation? Export it first to keep it.")) return;
  if (state.edit) cancelEdit();
  Object.assign(state, { messages: [], results: {} });
  sent.clear();
  showAlert("");
  say("");
  renderMessages();
  byId("prompt").focus();
  save();
}
