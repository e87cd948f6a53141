// The models of the server: the choice at the top, and the table.

import { getJson } from "./api.js";
import { byId, count, el, showAlert } from "./dom.js";
import { state } from "./store.js";

// Reads the list of models, and shows it.
export async function readModels() {
  try {
    const { data } = await getJson("v1/models");
    byId("model").replaceChildren(...data.map((model) => el("option", { value: model.id, text: model.id })));
    showModel();
    fillTable(data);
  } catch (error) {
    if (error.status !== 401) showAlert(error.message);
  }
}

// Selects the model of the settings, or the first one if it is not served now.
export function showModel() {
  const select = byId("model");
  select.value = state.settings.model;
  if (select.selectedIndex < 0 && select.options.length) select.selectedIndex = 0;
}

// Returns the body of a request with the chosen model.
export function withModel(body) {
  const model = byId("model").value || state.settings.model;
  return model ? { model, ...body } : body;
}

// The columns of the table. A model that is not loaded has no `meta`.
const COLUMNS = [
  ["Model", (model) => model.id],
  ["State", (model) => (model.meta ? "loaded" : "loaded on demand")],
  ["Architecture", (model) => model.meta?.architecture ?? ""],
  ["Memory", (model) => (model.meta?.size ? byteSize(model.meta.size) : "")],
  ["Context", (model) => (model.meta ? count(model.meta.n_ctx, "token") : "")],
  ["Vocabulary", (model) => (model.meta ? count(model.meta.n_vocab, "token") : "")],
  ["Adapter of", (model) => model.parent ?? ""],
];

function fillTable(models) {
  byId("models-table").replaceChildren(
    el("thead", {}, el("tr", {}, ...COLUMNS.map(([name]) => el("th", { scope: "col", text: name })))),
    el("tbody", {}, ...models.map((model) => el("tr", {}, ...COLUMNS.map(([, of]) => el("td", { text: of(model) }))))));
}

export function byteSize(bytes) {
  return bytes < 1e9 ? `${Math.ceil(bytes / 1e6).toLocaleString("en")} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}
