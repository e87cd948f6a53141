// The tab for decisions: asks one typed question and shows the probabilities of its answers.

import { ApiError, getJson } from "./api.js";
import { bar, byId, el, fieldError, percent, showAlert } from "./dom.js";
import { state } from "./store.js";

const EXAMPLES = {
  predicate: ["Is the customer angry?", ""],
  choice: ["Which team should answer?", "billing | Charges and refunds\ntechnical | Faults of the product\nsales"],
  score: ["How urgent is the message?", "low\nmedium\nhigh"],
};

export function initDecisions() {
  const type = byId("decision-type");
  const update = () => (byId("decision-options-field").hidden = type.value === "predicate");
  type.addEventListener("change", update);
  byId("decide").addEventListener("click", decide);
  byId("decision-example").addEventListener("click", () => {
    const [question, options] = EXAMPLES[type.value];
    byId("decision-input").value ||= "I was charged twice for my order, and nobody answers my letters.";
    byId("decision-question").value = question;
    byId("decision-options").value = options;
  });
  update();
}

function options() {
  return byId("decision-options").value.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const [value, ...rest] = line.split("|");
    const description = rest.join("|").trim();
    return description ? [value.trim(), { description }] : [value.trim(), {}];
  });
}

function question() {
  const type = byId("decision-type").value;
  const asked = { type, name: "question", instructions: byId("decision-question").value };
  if (type === "choice") asked.choices = options().map(([value, rest]) => ({ value, ...rest }));
  if (type === "score") asked.levels = options().map(([label, rest]) => ({ label, ...rest }));
  return asked;
}

async function decide() {
  const controls = ["decision-input", "decision-question", "decision-options"].map(byId);
  for (const control of controls) fieldError(control, "");
  showAlert("");
  const [input, asked] = controls;
  if (!input.value.trim()) return fieldError(input, "Type the state that the question is about.");
  if (!asked.value.trim()) return fieldError(asked, "Type a question.");
  const body = { input: input.value, questions: [question()] };
  if (state.settings.model) body.model = state.settings.model;
  const button = byId("decide");
  button.disabled = true;
  byId("decision-result").replaceChildren(el("p", { class: "hint", text: "Deciding…" }));
  try {
    const result = await getJson("v1/decisions", { body });
    byId("decision-result").replaceChildren(...show(result.answers[0], result.usage));
  } catch (error) {
    byId("decision-result").replaceChildren();
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 401) showAlert(error.message);
    const place = /choices|levels/.test(error.param ?? "") ? 2 : /questions/.test(error.param ?? "") ? 1 : /input/.test(error.param ?? "") ? 0 : null;
    if (place !== null) fieldError(controls[place], error.message);
  } finally {
    button.disabled = false;
  }
}

function show(answer, usage) {
  const rows = answer.type === "predicate"
    ? [["true", answer.probability], ["false", 1 - answer.probability]]
    : answer.probabilities.map((one) => [String(one.label ?? one.value), one.probability]);
  const most = Math.max(...rows.map(([, probability]) => probability));
  const table = el("table", { class: "decision" },
    el("caption", { text: headline(answer) }),
    el("thead", {}, el("tr", {}, el("th", { scope: "col", text: "Answer" }), el("th", { scope: "col", text: "Probability" }))),
    el("tbody", {}, ...rows.map(([name, probability]) => el("tr", {},
      el("th", { scope: "row", text: name }),
      el("td", {}, bar(probability, probability === most ? "first" : ""), el("span", { class: "figure", text: percent(probability) }))))));
  const facts = [
    `Error bound of each probability: ${answer.error === 0 ? "0" : answer.error.toExponential(1)}.`,
    `These answers have ${percent(answer.mass)} of the model's probability; the table divides by this sum.`,
  ];
  if (typeof answer.confidence === "number") facts.push(`Confidence: ${percent(answer.confidence)}.`);
  if (usage) facts.push(`Tokens read: ${usage.input_tokens}.`);
  return [table, el("p", { class: "hint", text: facts.join(" ") })];
}

function headline(answer) {
  if (answer.type === "choice") return `Likeliest: ${answer.choice}`;
  if (answer.type === "score") return `Score: ${answer.score.toFixed(2)} of ${answer.probabilities.length - 1}`;
  return `True with ${percent(answer.probability)}`;
}
