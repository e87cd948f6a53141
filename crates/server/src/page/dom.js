// Helpers for the DOM. All text from the server or a model enters the page here, as text nodes.

export const byId = (id) => document.getElementById(id);

// Creates an element. `text` and string children become text; `onNAME` adds a listener.
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

let ids = 0;
export const uniqueId = (prefix) => `${prefix}-${++ids}`;

// Reports whether a key was pressed alone. With other keys it may be a command of the browser.
export const isPlain = ({ ctrlKey, altKey, metaKey }) => !ctrlKey && !altKey && !metaKey;

// Makes the buttons of a tablist switch the panels named by `aria-controls`, also with arrow keys.
// `panels` maps these ids to elements for panels outside the document.
export function tabs(list, { panels = {}, onChange = () => {} } = {}) {
  const buttons = [...list.querySelectorAll('[role="tab"]')];
  const panelOf = (button) => panels[button.getAttribute("aria-controls")] ?? byId(button.getAttribute("aria-controls"));
  function select(button, focus = false) {
    for (const other of buttons) {
      const chosen = other === button;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      panelOf(other).hidden = !chosen;
    }
    if (focus) button.focus();
    onChange(button);
  }
  for (const button of buttons) button.addEventListener("click", () => select(button));
  list.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(event.target);
    const target = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (at < 0 || target === undefined || !isPlain(event)) return;
    event.preventDefault();
    select(buttons[(target + buttons.length) % buttons.length], true);
  });
  return select;
}

// Shows a message in the alert box, with a button for an action if there is one. An empty message hides the box.
export function showAlert(message, action = null) {
  const box = byId("alert");
  box.replaceChildren();
  box.hidden = !message;
  if (!message) return;
  const dismiss = () => {
    showAlert("");
    byId("prompt").focus();
  };
  box.append(el("span", { text: message }), el("span", { class: "row" },
    action && el("button", { type: "button", text: action.label, onclick: action.run }),
    el("button", { type: "button", text: "Dismiss", onclick: dismiss })));
}

// Shows an error below a control, or removes it if the message is empty.
export function fieldError(control, message) {
  const id = `${control.id}-error`;
  if (byId(id) && !message) showAlert("");
  byId(id)?.remove();
  control.removeAttribute("aria-invalid");
  control.removeAttribute("aria-describedby");
  if (!message) return;
  control.after(el("p", { id, class: "field-error", text: message }));
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", id);
  for (let parent = control.closest("details"); parent; parent = parent.parentElement.closest("details")) {
    parent.open = true;
  }
}

// Replaces the content of a text area so that the browser can undo it.
export function replaceText(area, text) {
  area.focus();
  area.select();
  if (!document.execCommand("insertText", false, text)) {
    area.value = text;
    area.dispatchEvent(new Event("input"));
  }
}

export function percent(share) {
  if (share > 0 && share < 0.001) return "<0.1%";
  if (share < 1 && share > 0.999) return ">99.9%";
  return `${(share * 100).toFixed(1)}%`;
}

// Creates a bar for a share between 0 and 1.
export function bar(share, className = "") {
  const fill = el("span", { class: "fill" });
  fill.style.width = `${Math.min(1, Math.max(0, share)) * 100}%`;
  return el("span", { class: `bar ${className}`, "aria-hidden": "true" }, fill);
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

// Returns a function that calls `action` once, `delay` milliseconds after its last call.
export function debounce(action, delay) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, delay);
  };
}
