// Requests to the server: headers, error messages and the reader of server-sent events.

import { stringify } from "./json.js";

const KEY = "formwork.key";
let key = "";
try {
  key = sessionStorage.getItem(KEY) ?? "";
} catch { /* Without session storage, the key is forgotten on reload. */ }

let whenUnauthorized = () => {};

export const apiKey = () => key;

export function setApiKey(value) {
  key = value.trim();
  try {
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
  } catch { /* See above. */ }
}

// Calls `action` after each answer with status 401.
export function onUnauthorized(action) {
  whenUnauthorized = action;
}

export class ApiError extends Error {
  constructor(message, { status = null, param = null } = {}) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

// Sends a request and returns the response. Throws an `ApiError` if the status is no success.
export async function request(path, { body, signal } = {}) {
  const headers = {};
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : stringify(body),
      signal,
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (/header|ByteString|ISO-8859-1/i.test(error.message)) {
      throw new ApiError("The API key has characters that a header cannot carry.", { param: "api-key" });
    }
    throw new ApiError("The server cannot be reached. Check that it runs, then try again.");
  }
  if (response.ok) return response;
  const failure = await readError(response);
  if (response.status === 401) whenUnauthorized();
  throw failure;
}

async function readError(response) {
  const text = await response.text().catch(() => "");
  let error = null;
  try {
    error = JSON.parse(text).error;
  } catch { /* A proxy may answer with another format. */ }
  const message = typeof error?.message === "string"
    ? error.message
    : `The server answered with status ${response.status}. ${text.slice(0, 200)}`;
  return new ApiError(message, {
    status: response.status,
    param: typeof error?.param === "string" ? error.param : null,
  });
}

export async function getJson(path, options) {
  const response = await request(path, options);
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server's answer is not JSON, or it broke off.");
  }
}

// Yields the objects of an event stream. Throws if the stream ends before `[DONE]`.
export async function* events(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    while (true) {
      let part;
      try {
        part = await reader.read();
      } catch (error) {
        if (error.name === "AbortError") throw error;
        throw broken();
      }
      rest += part.done ? decoder.decode() : decoder.decode(part.value, { stream: true });
      const blocks = rest.split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const data = dataOf(block);
        if (data === "[DONE]") return;
        if (data) yield parseEvent(data);
      }
      if (part.done) throw broken();
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function broken() {
  return new ApiError("The connection broke before the answer was complete.");
}

function dataOf(block) {
  return block.split(/\r?\n/).filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(line[5] === " " ? 6 : 5)).join("\n");
}

function parseEvent(data) {
  let event;
  try {
    event = JSON.parse(data);
  } catch {
    throw new ApiError("The stream contains an event that is not JSON.");
  }
  if (event?.error) throw new ApiError(String(event.error.message ?? "The server reported an error."), { param: event.error.param });
  return event;
}
