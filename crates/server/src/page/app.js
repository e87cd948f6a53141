// Starts the page: tabs, model choice, settings and theme.

import { apiKey, getJson, onUnauthorized, setApiKey } from "./api.js";
import { initChat, renderMessages } from "./chat.js";
import { check, initConstraint, showConstraint } from "./constraint.js";
import { initDecisions } from "./decisions.js";
import { byId, debounce, el, fieldError, showAlert, tabs } from "./dom.js";
import { showServer } from "./status.js";
import { load, save, state } from "./store.js";

const TEXTS = ["system", "temperature", "top_p", "seed", "max_tokens"];
const saveSoon = debounce(save, 500);

load();
const selectTab = tabs(byId("main-tabs"), { onChange: (tab) => showServer(tab.id === "tab-server") });
onUnauthorized(() => {
  showAlert("The server requires an API key. Type it into the settings.");
  selectTab(byId("tab-chat"));
  byId("settings-panel").open = true;
  fieldError(byId("api-key"), apiKey() ? "The server refused this key." : "The server requires a key.");
  byId("api-key").focus();
});
if (matchMedia("(max-width: 60rem)").matches) byId("constraint-panel").open = false;
showSettings();
initSettings();
initDecisions();
initConstraint();
initChat({
  reload() {
    showSettings();
    showConstraint();
    renderMessages();
  },
});
await readModels();

function initSettings() {
  for (const name of TEXTS) {
    byId(name).addEventListener("input", () => {
      state.settings[name] = byId(name).value;
      fieldError(byId(name), "");
      saveSoon();
    });
  }
  byId("schema_in_prompt").addEventListener("change", () => {
    state.settings.schema_in_prompt = byId("schema_in_prompt").checked;
    save();
  });
  byId("theme").addEventListener("change", () => {
    state.settings.theme = byId("theme").value;
    showTheme();
    save();
  });
  byId("model").addEventListener("change", () => {
    state.settings.model = byId("model").value;
    fieldError(byId("model"), "");
    check();
    save();
  });
  byId("api-key").value = apiKey();
  byId("api-key").addEventListener("input", () => {
    setApiKey(byId("api-key").value);
    fieldError(byId("api-key"), "");
  });
  byId("api-key").addEventListener("change", () => {
    showAlert("");
    readModels();
    check();
  });
  addEventListener("pagehide", save);
}

// Shows the settings of the state in their controls.
function showSettings() {
  for (const name of TEXTS) byId(name).value = state.settings[name];
  byId("schema_in_prompt").checked = state.settings.schema_in_prompt;
  byId("theme").value = state.settings.theme;
  showTheme();
  if (byId("model").options.length) showModel();
}

function showTheme() {
  const { theme } = state.settings;
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

async function readModels() {
  try {
    const { data } = await getJson("v1/models");
    byId("model").replaceChildren(...data.map((model) => el("option", { value: model.id, text: model.id })));
    showModel();
  } catch (error) {
    if (error.status !== 401) showAlert(error.message);
  }
}

// Selects the model of the settings, or the first one if it is not served.
function showModel() {
  const select = byId("model");
  select.value = state.settings.model;
  if (select.selectedIndex < 0 && select.options.length) select.selectedIndex = 0;
  state.settings.model = select.value;
}
