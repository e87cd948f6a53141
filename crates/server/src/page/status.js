// The tab for the server: its models and its metrics, read every 2 seconds while the tab is visible.

import { request } from "./api.js";
import { byId, el, percent, svg } from "./dom.js";
import { byteSize, readModels } from "./models.js";

const PERIOD = 2000;
const KEPT = 60; // Points of a sparkline: 2 minutes.

// Metrics come in this order; the first pattern that matches a name gives its place.
const ORDER = [/completion_tokens/, /prompt_tokens/, /^formwork_requests_/, /batch/, /steps/, /grammar|mask/, /model_seconds/,
  /bytes|memory|cache|loaded/, /token/];

const rows = new Map(); // Table rows and earlier values, by series.
let timer = null;
let isReading = false;

// Starts or stops the reading of metrics.
export function showServer(visible) {
  clearInterval(timer);
  timer = null;
  if (!visible) return;
  readModels();
  readMetrics();
  timer = setInterval(() => {
    if (!document.hidden) readMetrics();
  }, PERIOD);
}

async function readMetrics() {
  if (isReading) return;
  isReading = true;
  const status = byId("metrics-status");
  try {
    const text = await (await request("metrics")).text();
    update(parseMetrics(text), performance.now() / 1000);
    status.textContent = `Read at ${new Date().toLocaleTimeString()}; the page reads the metrics every 2 seconds.`;
  } catch (error) {
    status.textContent = `The metrics cannot be read. ${error.message}`;
    if (error.status === 401) showServer(false);
  } finally {
    isReading = false;
  }
}

// Parses Prometheus text into series: {key, name, labels, value, help, type}. A histogram becomes
// two series, its count and its mean.
function parseMetrics(text) {
  const families = new Map();
  const family = (name) => {
    if (!families.has(name)) families.set(name, { help: "", type: "untyped" });
    return families.get(name);
  };
  const series = [];
  for (const line of text.split("\n")) {
    const comment = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line);
    if (comment) {
      family(comment[2])[comment[1].toLowerCase()] = comment[3];
      continue;
    }
    const sample = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!sample || sample[1].endsWith("_bucket")) continue;
    const base = sample[1].replace(/_(sum|count)$/, "");
    const histogram = families.get(base)?.type === "histogram" && base !== sample[1];
    const { help, type } = family(histogram ? base : sample[1]);
    series.push({
      key: `${sample[1]}{${sample[2] ?? ""}}`, name: sample[1], base: histogram ? base : null,
      labels: sample[2] ?? "", value: Number(sample[3]), help, type: histogram ? "counter" : type,
    });
  }
  return series.filter((one) => !one.name.endsWith("_sum") || !one.base).concat(means(series)).sort((a, b) => place(a) - place(b));
}

function means(series) {
  return series.filter((one) => one.base && one.name.endsWith("_sum")).map((sum) => {
    const total = series.find((one) => one.name === `${sum.base}_count` && one.labels === sum.labels)?.value ?? 0;
    return { ...sum, key: `${sum.base}{${sum.labels}} mean`, name: `${sum.base} (mean)`, value: total ? sum.value / total : 0, type: "gauge" };
  });
}

function place({ name }) {
  const at = ORDER.findIndex((pattern) => pattern.test(name));
  return at < 0 ? ORDER.length : at;
}

// The figures at the top: each sums the series of all models, as a value or as its growth per second.
const TILES = [
  ["Requests waiting", (sum) => figure(sum("formwork_requests_waiting"))],
  ["Sequences running", (sum) => figure(sum("formwork_requests_running"))],
  ["Tokens per second", (_, rate) => figure(rate("formwork_completion_tokens_total"))],
  ["Masks, share of the time", (_, rate) => {
    const [masks, model] = [rate("formwork_grammar_seconds_total"), rate("formwork_model_seconds_total")];
    return masks + model > 0 ? percent(masks / (masks + model)) : "–";
  }],
  ["Masks, per token", (_, rate) => {
    const tokens = rate("formwork_completion_tokens_total");
    return tokens > 0 ? `${figure((1e6 * rate("formwork_grammar_seconds_total")) / tokens)} µs` : "–";
  }],
  ["Memory of the process", (sum) => (sum("process_resident_memory_bytes") ? byteSize(sum("process_resident_memory_bytes")) : "–")],
];

let earlier = null; // The series of the last reading, and its time.

function updateTiles(series, now) {
  const sumOf = (all) => (name) => all.filter((one) => one.name === name).reduce((total, one) => total + one.value, 0);
  const sum = sumOf(series);
  const before = earlier && sumOf(earlier.series);
  const rate = (name) => (before ? Math.max(0, sum(name) - before(name)) / (now - earlier.now) : 0);
  byId("tiles").replaceChildren(...TILES.flatMap(([name, of]) => [el("div", {}, el("dt", { text: name }), el("dd", { text: of(sum, rate) }))]));
  earlier = { series, now };
}

function update(series, now) {
  updateTiles(series, now);
  const body = byId("metrics-table").tBodies[0];
  const present = new Set();
  // The label of the model is shown only if it tells series apart.
  const models = new Set(series.map(({ labels }) => /(?:^|,)model="([^"]*)"/.exec(labels)?.[1]).filter(Boolean));
  let before = null;
  for (const one of series) {
    present.add(one.key);
    if (!rows.has(one.key)) rows.set(one.key, createRow(one, models.size > 1));
    const row = rows.get(one.key);
    const after = before ? before.nextSibling : body.firstChild;
    if (after !== row.element) body.insertBefore(row.element, after);
    before = row.element;
    updateRow(row, one, now);
  }
  for (const [key, row] of rows) {
    if (present.has(key)) continue;
    row.element.remove();
    rows.delete(key);
  }
}

function createRow({ name, labels, help }, withModel) {
  const value = el("td", { class: "number" });
  const rate = el("td", { class: "number" });
  const line = svg("polyline", { points: "", fill: "none" });
  const chart = svg("svg", { viewBox: "0 0 120 24", class: "spark", "aria-hidden": "true", preserveAspectRatio: "none" }, line);
  const short = withModel ? labels : labels.replace(/(^|,)model="[^"]*",?/, "$1");
  const element = el("tr", {},
    el("th", { scope: "row", title: labels }, el("code", { text: name.replace(/^formwork_/, "") }),
      short ? el("span", { class: "hint labels", text: short }) : null),
    value, rate, el("td", {}, chart), el("td", { class: "help", text: help }));
  return { element, value, rate, line, points: [], last: null };
}

function updateRow(row, { name, value, type }, now) {
  row.value.textContent = name.endsWith("_bytes") ? byteSize(value) : figure(value);
  const counter = type === "counter";
  const speed = row.last && now > row.last.now ? Math.max(0, value - row.last.value) / (now - row.last.now) : 0;
  row.rate.textContent = counter && row.last ? figure(speed) : "";
  if (row.last || !counter) row.points.push(counter ? speed : value);
  row.points.splice(0, row.points.length - KEPT);
  row.last = { value, now };
  const top = Math.max(...row.points, 1e-9);
  row.line.setAttribute("points", row.points.map((point, index) => {
    const x = 120 - (row.points.length - 1 - index) * (120 / (KEPT - 1));
    return `${x.toFixed(1)},${(22.5 - (point / top) * 21).toFixed(1)}`;
  }).join(" "));
}

function figure(value) {
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
  return value.toPrecision(3);
}
