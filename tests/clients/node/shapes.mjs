// The server that `run` started, the requested schemas, and checks that hold for any answer.
// The model under test is small and its text is meaningless, so tests check shapes and guarantees only.

import assert from 'node:assert/strict';
import { z } from 'zod';

export const server = { baseURL: process.env.FORMWORK_URL, apiKey: process.env.FORMWORK_KEY };
export const model = process.env.FORMWORK_MODEL;

export const Person = z.object({
  name: z.string().max(12),
  mood: z.enum(['calm', 'merry']),
  pet: z.object({ kind: z.string().max(12), age: z.number().int().min(0).max(30) }).nullable(),
  scores: z.array(z.number().int().min(0).max(99)).max(3),
});

export const Weather = z.object({ city: z.string().max(12), days: z.union([z.literal(1), z.literal(7)]) });
export const Search = z.object({ query: z.string().max(12), limit: z.number().int().min(1).max(9) });
export const arguments_ = { get_weather: Weather, search: Search };

/** Checks that the arguments match the schema of a known tool. */
export function checkArguments(name, args) {
  assert.ok(name in arguments_, `${name} is not a tool`);
  arguments_[name].strict().parse(typeof args === 'string' ? JSON.parse(args) : args);
}

/** Returns a stop string from the middle of a text, and the text before its first occurrence. */
export function middle(text) {
  const stop = text.slice(Math.floor(text.length / 2)).slice(0, 3);
  return { stop, before: text.slice(0, text.indexOf(stop)) };
}

export async function collect(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}
