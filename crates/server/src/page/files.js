// Conversations as files.

import { el, showAlert } from "./dom.js";
import { KINDS } from "./kinds.js";
import { adopt, state } from "./store.js";

const FORMAT = "formwork-conversation";
const VERSION = 1;

export function exportFile() {
  const { settings, constraint, messages } = state;
  const exported = new Date().toISOString();
  const content = { format: FORMAT, version: VERSION, exported, settings, constraint, messages };
  const url = URL.createObjectURL(new Blob([JSON.stringify(content, null, 2)], { type: "application/json" }));
  el("a", { href: url, download: `conversation-${exported.slice(0, 19).replaceAll(":", "")}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Reads the chosen file into the state, after a question if that replaces something. Returns true if it did.
export async function importFile(input, isBusy) {
  const file = input.files[0];
  input.value = "";
  if (!file) return false;
  let content;
  try {
    content = JSON.parse(await file.text());
  } catch (error) {
    return refuse(`The file cannot be read as JSON: ${error.message}`);
  }
  if (content?.format !== FORMAT || !Array.isArray(content.messages)) {
    return refuse(`The file is not a conversation of this page: expected \`format\` to be \`${FORMAT}\`.`);
  }
  if (content.version !== VERSION) return refuse(`The file has version ${JSON.stringify(content.version)}; this page reads version ${VERSION}.`);
  if (isBusy()) return refuse("An answer is being generated. Import the file when it is complete.");
  const replaced = partsReplaced(content);
  if (replaced.length && !confirm(`Replace ${replaced.join(", ")} by what is in the file?`)) return false;
  const { theme } = state.settings;
  const { texts } = state.constraint;
  if (state.edit) state.draft = state.edit.kept;
  Object.assign(state, { messages: [], results: {}, edit: null });
  const { settings, constraint, messages } = content;
  const unknown = adopt({ settings, constraint, messages });
  state.settings.theme = theme;
  // Texts of other kinds stay.
  state.constraint.texts = { ...texts, ...state.constraint.texts };
  showAlert(unknown ? `The file has ${unknown} messages of unknown roles, which were left out.` : "");
  return true;
}

function refuse(message) {
  showAlert(message);
  return false;
}

// Names the parts of the state that a file would replace by something else.
function partsReplaced({ settings, constraint }) {
  const parts = [];
  if (state.messages.length) parts.push("this conversation");
  const isOther = (mine, given) => mine.trim() !== "" && typeof given === "string" && given !== mine;
  if (isOther(state.settings.system, settings?.system)) parts.push("the system message");
  if (isOther(state.constraint.tools, constraint?.tools)) parts.push("the tools");
  for (const [kind, { label }] of Object.entries(KINDS)) {
    if (isOther(state.constraint.texts[kind] ?? "", constraint?.texts?.[kind])) parts.push(`the text of "${label}"`);
  }
  return parts;
}
