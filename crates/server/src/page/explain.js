// Explains what may come next in an output, and samples outputs.

import { ApiError, getJson } from "./api.js";
import { byId, count, el } from "./dom.js";
import { currentConstraint, fieldsOf } from "./kinds.js";
import { withModel } from "./models.js";

const running = new WeakMap(); // The controller of the last request for each element.

// Removes what was shown in an element, and ends the request for it.
export function clear(output) {
  running.get(output)?.abort();
  output.replaceChildren();
}

// Explains in an element what may come after the start of an output.
export function explain(constraint, text, output) {
  return ask("v1/grammar/explain", constraint, { text }, output, (result) => {
    const rest = new TextDecoder().decode(new TextEncoder().encode(text).slice(result.at));
    const first = result.matches
      ? `The text is the start of an output${result.may_end ? ", and the output may end here" : ""}.`
      : `The text leaves the constraint after ${count(result.at, "byte")}, at ${JSON.stringify(rest.slice(0, 40))}.`;
    const tokens = typeof result.tokens === "number" ? ` (${count(result.tokens, "token")} can be next)` : "";
    return [
      el("p", { text: first }),
      result.expected.length ? el("p", { text: `${result.matches ? "Here the constraint allows" : "Allowed there"}:` }) : "",
      result.expected.length ? el("ul", {}, ...result.expected.slice(0, 20).map((one) => el("li", { text: one }))) : "",
      el("p", {}, result.bytes ? `${result.matches ? "Next characters" : "Expected there"}: ${result.bytes}${tokens}` : ""),
    ];
  });
}

// Shows random outputs of the constraint in the panel.
export function sample() {
  const show = ({ outputs }) => outputs.map((text) => el("pre", { text, tabindex: "0", role: "region", "aria-label": "Sample" }));
  return ask("v1/grammar/sample", currentConstraint(), { n: 3 }, byId("sample-result"), show);
}

async function ask(path, constraint, extra, output, show) {
  running.get(output)?.abort();
  const controller = new AbortController();
  running.set(output, controller);
  const { fields, error } = fieldsOf(constraint);
  if (error) return output.replaceChildren(el("p", { text: error.message }));
  if (!Object.keys(fields).length) return output.replaceChildren(el("p", { text: "There is no constraint." }));
  try {
    const result = await getJson(path, { body: { ...withModel(fields), ...extra }, signal: controller.signal });
    if (!controller.signal.aborted) output.replaceChildren(...show(result));
  } catch (failure) {
    if (controller.signal.aborted) return;
    if (!(failure instanceof ApiError)) throw failure;
    output.replaceChildren(el("p", { class: "field-error", text: failure.message }));
  }
}
