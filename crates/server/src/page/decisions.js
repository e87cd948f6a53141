// The tab for decisions: asks one typed question and shows the probabilities of its answers.

import { ApiError, getJson } from "./api.js";
import { bar, byId, debounce, el, fieldError, percent, replaceText, showAlert } from "./dom.js";
import { withModel } from "./models.js";
import { save, state } from "./store.js";

const EXAMPLES = {
  predicate: ["Is the customer angry?", ""],
  choice: ["Which team should answer?", "billing | Charges and refunds\ntechnical | Faults of the product\nsales"],
  score: ["How urgent is the message?", "low\nmedium\nhigh"],
};
const STATE = "I was charged twice for my order, and nobody answers my letters.";
const LITTLE = 0.05; // Share of the model's probability below which a result says little.
const TEXTS = ["input", "question", "options"];

// The field of each part of a request.
const FIELDS = [[/choices|levels/, "options"], [/questions/, "question"], [/input/, "input"]];

const saveSoon = debounce(save, 500);
const field = (name) => byId(`decision-${name}`);
let isDeciding = false;

export function initDecisions() {
  for (const name of TEXTS) {
    field(name).addEventListener("input", () => {
      state.decision[name] = field(name).value;
      fieldError(field(name), "");
      saveSoon();
    });
  }
  field("type").addEventListener("change", () => {
    state.decision.type = field("type").value;
    showDecision();
    save();
  });
  byId("decide").addEventListener("click", decide);
  byId("decision-example").addEventListener("click", () => {
    const [question, options] = EXAMPLES[state.decision.type];
    if (!state.decision.input) replaceText(field("input"), STATE);
    if (options) replaceText(field("options"), options);
    replaceText(field("question"), question);
  });
  showDecision();
}

// Shows the question of the state in the fields.
export function showDecision() {
  if (!Object.hasOwn(EXAMPLES, state.decision.type)) state.decision.type = "predicate";
  field("type").value = state.decision.type;
  for (const name of TEXTS) field(name).value = state.decision[name];
  byId("decision-options-field").hidden = state.decision.type === "predicate";
}

function options() {
  return state.decision.options.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const [value, ...rest] = line.split("|");
    const description = rest.join("|").trim();
    return description ? [value.trim(), { description }] : [value.trim(), {}];
  });
}

function question() {
  const { type, question: instructions } = state.decision;
  const asked = { type, name: "question", instructions };
  if (type === "choice") asked.choices = options().map(([value, rest]) => ({ value, ...rest }));
  if (type === "score") asked.levels = options().map(([label, rest]) => ({ label, ...rest }));
  return asked;
}

async function decide() {
  if (isDeciding) return;
  for (const name of TEXTS) fieldError(field(name), "");
  showAlert("");
  const { input, question: asked } = state.decision;
  if (!input.trim()) return fieldError(field("input"), "Type the text that the question is about.");
  if (!asked.trim()) return fieldError(field("question"), "Type a question.");
  const output = byId("decision-result");
  isDeciding = true;
  byId("decide").setAttribute("aria-disabled", "true");
  output.replaceChildren(el("p", { class: "hint", text: "Deciding…" }));
  try {
    const result = await getJson("v1/decisions", { body: withModel({ input, questions: [question()] }) });
    output.replaceChildren(...show(result.answers[0], result.usage));
  } catch (error) {
    output.replaceChildren();
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 401) showAlert(error.message);
    const name = FIELDS.find(([pattern]) => pattern.test(error.param ?? ""))?.[1];
    if (name) fieldError(field(name), error.message);
  } finally {
    isDeciding = false;
    byId("decide").removeAttribute("aria-disabled");
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
  const share = `These answers have ${percent(answer.mass)} of the model's probability; the table divides by this sum.`;
  const warning = answer.mass < LITTLE
    ? [el("p", { class: "override", text: `${share} The model would rather write something else, so this result says little.` })]
    : [];
  const facts = warning.length ? [] : [share];
  facts.push(`Error bound of each probability: ${answer.error === 0 ? "0" : answer.error.toExponential(1)}.`);
  if (typeof answer.confidence === "number") facts.push(`Confidence: ${percent(answer.confidence)}.`);
  if (usage) facts.push(`Tokens read: ${usage.input_tokens}.`);
  return [table, ...warning, el("p", { class: "hint", text: facts.join(" ") })];
}

function headline(answer) {
  if (answer.type === "choice") return `Likeliest: ${answer.choice}`;
  if (answer.type === "predicate") {
    const isTrue = answer.probability >= 0.5;
    return `Likeliest: ${isTrue}, ${percent(isTrue ? answer.probability : 1 - answer.probability)}`;
  }
  const labels = answer.probabilities.map((one) => one.label ?? one.value);
  return `Score: ${answer.score.toFixed(2)}, from 0 (${labels[0]}) to ${labels.length - 1} (${labels.at(-1)})`;
}
