// Reads a streamed answer into a message. Reports what came once per frame, so that the page stays usable however
// fast the tokens come.

import { events } from "./api.js";

const SLICE = 12; // Milliseconds of reading after which the browser may do something else.
const HIDDEN = 200; // Milliseconds between reports while the page is hidden, when there are no frames.

// Calls `update({content, reasoning, calls, masks})` with what was added to `message`.
export async function readAnswer(response, message, started, update) {
  let added = nothing();
  let isWaiting = false;
  const report = () => {
    isWaiting = false;
    const now = added;
    added = nothing();
    update(now);
  };
  let slice = performance.now();
  try {
    for await (const event of events(response)) {
      if (!take(event, message, added, (performance.now() - started) / 1000)) continue;
      if (!isWaiting) {
        isWaiting = true;
        if (document.hidden) setTimeout(() => isWaiting && report(), HIDDEN);
        else requestAnimationFrame(() => isWaiting && report());
      }
      if (performance.now() - slice > SLICE) {
        await new Promise((resolve) => setTimeout(resolve));
        slice = performance.now();
      }
    }
  } finally {
    report();
  }
}

const nothing = () => ({ content: "", reasoning: "", calls: false, masks: [] });

// Adds an event to the message and to `added`. Returns false if it has nothing to show.
function take(event, message, added, seconds) {
  if (event?.usage) message.usage = event.usage;
  const choice = event?.choices?.[0];
  if (!choice) return false;
  const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta ?? {};
  message.content += content ?? "";
  message.reasoning += reasoning ?? "";
  for (const piece of calls ?? []) {
    const call = (message.calls[piece.index] ??= { id: "", type: "function", name: "", arguments: "" });
    if (piece.id) call.id = piece.id;
    if (piece.type) call.type = piece.type;
    call.name += piece.function?.name ?? piece.custom?.name ?? "";
    call.arguments += piece.function?.arguments ?? piece.custom?.input ?? "";
  }
  const masks = Array.isArray(choice.mask_view) ? choice.mask_view : [];
  message.masks.push(...masks);
  message.decisions.push(...(choice.decisions ?? []));
  if (choice.decisions_error) message.note = `The choices could not be measured. ${choice.decisions_error}`;
  if (choice.finish_reason) message.finish = choice.finish_reason;
  if (choice.closed_by_budget) message.closed = true;
  added.content += content ?? "";
  added.reasoning += reasoning ?? "";
  added.calls ||= Boolean(calls?.length);
  added.masks.push(...masks);
  const hasText = Boolean(content || reasoning || calls?.length || masks.length);
  if (hasText) message.first ??= seconds;
  return hasText;
}
