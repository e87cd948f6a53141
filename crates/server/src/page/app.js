// Starts the page: tabs, model choice, settings and theme.

import { apiKey, onUnauthorized, setApiKey } from "./api.js";
import { initChat, renderMessages } from "./chat.js";
import { checkConstraint } from "./check.js";
import { initConstraint, showConstraint } from "./constraint.js";
import { initDecisions, showDecision } from "./decisions.js";
import { byId, debounce, fieldError, showAlert, tabs } from "./dom.js";
import { follow, initFollow } from "./follow.js";
import { readModels, showModel } from "./models.js";
import { showServer } from "./status.js";
import { load, onNotKept, onOtherTab, save, state } from "./store.js";

const TEXTS = ["system", "temperature", "top_p", "seed", "max_tokens"];
const CHECKS = ["schema_in_prompt", "masks", "decisions"];
const saveSoon = debounce(save, 500);
let isNotKeptSaid = false;

onNotKept((what) => {
  if (isNotKeptSaid) return;
  isNotKeptSaid = true;
  showAlert(`The browser cannot keep ${what} for a reload. Export the conversation to keep it.`);
});
onOtherTab(() => showAlert("Another tab has saved its conversation. The next change in this tab replaces it; export this conversation to keep both."));
load();
const selectTab = tabs(byId("main-tabs"), {
  onChange(tab) {
    history.replaceState(null, "", tab.id === "tab-chat" ? location.pathname : `#${tab.id.replace("tab-", "")}`);
    showServer(tab.id === "tab-server");
    if (tab.id === "tab-chat") follow();
  },
});
// The person may be typing, so the focus stays where it is.
onUnauthorized(() => {
  const message = apiKey() ? "The server refused this API key." : "The server requires an API key.";
  showAlert(message, { label: "Enter the key", run: goToKey });
  fieldError(byId("api-key"), message);
});
if (matchMedia("(max-width: 60rem)").matches) byId("constraint-panel").open = false;
showSettings();
initSettings();
initDecisions();
initConstraint();
initFollow();
initChat({
  reload() {
    showSettings();
    showConstraint();
    showDecision();
    renderMessages();
  },
});
const linked = byId(`tab-${location.hash.slice(1)}`);
if (linked) selectTab(linked);
await readModels();

function goToKey() {
  selectTab(byId("tab-chat"));
  byId("settings-panel").open = true;
  byId("api-key").focus();
}

function initSettings() {
  for (const name of TEXTS) {
    byId(name).addEventListener("input", () => {
      state.settings[name] = byId(name).value;
      fieldError(byId(name), "");
      saveSoon();
    });
  }
  for (const name of CHECKS) {
    byId(name).addEventListener("change", () => {
      state.settings[name] = byId(name).checked;
      fieldError(byId(name), "");
      save();
    });
  }
  byId("theme").addEventListener("change", () => {
    state.settings.theme = byId("theme").value;
    showTheme();
    save();
  });
  byId("model").addEventListener("change", () => {
    state.settings.model = byId("model").value;
    fieldError(byId("model"), "");
    checkConstraint();
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
    checkConstraint();
  });
  addEventListener("pagehide", save);
}

// Shows the settings of the state in their controls.
function showSettings() {
  for (const name of TEXTS) byId(name).value = state.settings[name];
  for (const name of CHECKS) byId(name).checked = state.settings[name];
  byId("theme").value = state.settings.theme;
  showTheme();
  showModel();
}

function showTheme() {
  const { theme } = state.settings;
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}
