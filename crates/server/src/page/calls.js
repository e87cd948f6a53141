// The tool calls of an answer, each with a field for its result while the answer waits for results.

import { el, uniqueId } from "./dom.js";
import { indented } from "./json.js";

// `results` offers the fields: `isOpen()` is true if results can be sent, `text(call)` is the text of a field,
// `isKept(call)` is true if its result is complete, `keep` and `send` receive a call and its text.
export function createCalls(message, results) {
  const blocks = [];
  const element = el("div", { class: "calls" });
  let isFinished = false;

  // Shows what the calls have gained.
  function update() {
    for (const [index, call] of message.calls.entries()) {
      if (!call) continue;
      if (!blocks[index]) element.append((blocks[index] = createBlock()).element);
      const block = blocks[index];
      block.name.textContent = call.name;
      block.text.appendData(call.arguments.slice(block.text.length));
    }
  }

  function finish() {
    isFinished = true;
    update();
    for (const [index, call] of message.calls.entries()) blocks[index].text.data = indented(call.arguments);
    updateFields();
  }

  // Adds the fields for results, or removes them if results can no longer be sent.
  function updateFields() {
    if (!isFinished) return;
    const isOpen = message.finish === "tool_calls" && results.isOpen();
    for (const [index, call] of message.calls.entries()) {
      const block = blocks[index];
      if (isOpen && !block.field) block.element.append((block.field = resultField(call, results, message.calls.length)).element);
      if (block.field) block.field.update();
      if (!isOpen && block.field) {
        block.field.element.remove();
        block.field = null;
      }
    }
  }

  return { element, update, finish, updateFields };
}

function createBlock() {
  const name = el("code");
  const text = document.createTextNode("");
  const element = el("details", { class: "call", open: true }, el("summary", {}, "Call of ", name),
    el("pre", { tabindex: "0", role: "region", "aria-label": "Arguments" }, text));
  return { element, name, text, field: null };
}

function resultField(call, results, calls) {
  const id = uniqueId("result");
  const note = el("span", { class: "hint", role: "status" });
  const field = el("textarea", { id, rows: "2", class: "code", oninput: () => results.keep(call, field.value) });
  field.value = results.text(call);
  const element = el("div", {},
    el("div", { class: "field" }, el("label", { for: id, text: "Result of the tool" }), field),
    el("div", { class: "row" }, note, el("button", {
      type: "button", text: calls === 1 ? "Send the result" : `Keep the result; the last of ${calls} sends all`,
      onclick: () => results.send(call, field.value),
    })));
  return { element, update: () => (note.textContent = results.isKept(call) ? "Kept." : "") };
}
