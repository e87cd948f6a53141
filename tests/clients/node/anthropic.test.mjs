// Tests `/v1/messages` and `/v1/messages/count_tokens` with Anthropic's official client.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { z } from 'zod';

import { Person, Search, Weather, checkArguments, collect, middle, model, server } from './shapes.mjs';

// Retries are off, so that a second attempt cannot hide a failure. The client adds `/v1` to the base URL.
const connection = { baseURL: server.baseURL.replace(/\/v1$/, ''), apiKey: server.apiKey };
const client = new Anthropic({ ...connection, maxRetries: 0, timeout: 50_000 });
const messages = [{ role: 'user', content: 'Tell me about the sea.' }];
const greedy = { model, messages, temperature: 0, max_tokens: 16 };
const tools = [
  { name: 'get_weather', description: 'The weather in a city.', input_schema: z.toJSONSchema(Weather) },
  { name: 'search', description: 'Searches a library.', input_schema: z.toJSONSchema(Search) },
];
const weather = [{ role: 'user', content: 'What is the weather in Oslo?' }];
const withTools = { ...greedy, messages: weather, max_tokens: 60, tools };
const mustCall = { ...withTools, tool_choice: { type: 'any' } };

function text(message) {
  assert.ok(message.content.every((block) => block.type === 'text'));
  return message.content.map((block) => block.text).join('');
}

/** Checks that the content is valid calls. Returns names and arguments. */
function toolUses(message) {
  assert.equal(message.stop_reason, 'tool_use');
  assert.ok(message.content.length > 0 && message.content.every((block) => block.type === 'tool_use'));
  for (const block of message.content) checkArguments(block.name, block.input);
  return message.content.map(({ name, input }) => ({ name, input }));
}

describe('messages', () => {
  test('plain and streamed', async () => {
    const message = await client.messages.create({ ...greedy, system: [{ type: 'text', text: 'Be brief.' }] });
    assert.ok(text(message));
    assert.ok(['end_turn', 'max_tokens'].includes(message.stop_reason));
    const events = await collect(await client.messages.create({ ...greedy, system: 'Be brief.', stream: true }));
    const kinds = events.map((event) => event.type).filter((kind) => kind !== 'ping');
    assert.deepEqual(kinds.slice(0, 2), ['message_start', 'content_block_start']);
    assert.ok(kinds.slice(2, -3).every((kind) => kind === 'content_block_delta'));
    assert.deepEqual(kinds.slice(-3), ['content_block_stop', 'message_delta', 'message_stop']);
    const deltas = events.filter((event) => event.type === 'content_block_delta');
    assert.equal(deltas.map((event) => event.delta.text).join(''), text(message));
    assert.equal(events.at(-2).usage.output_tokens, message.usage.output_tokens);
  });

  test('the stream helper', async () => {
    const stream = client.messages.stream(greedy);
    const pieces = [];
    stream.on('text', (delta) => pieces.push(delta));
    const final = await stream.finalMessage();
    assert.ok(pieces.length > 1);
    assert.equal(pieces.join(''), text(final));
    assert.equal(text(await client.messages.create(greedy)), text(final));
  });

  test('stop sequences and max_tokens', async () => {
    const { stop, before } = middle(text(await client.messages.create(greedy)));
    const message = await client.messages.create({ ...greedy, stop_sequences: [stop] });
    assert.equal(text(message), before);
    assert.deepEqual([message.stop_reason, message.stop_sequence], ['stop_sequence', stop]);
    const cut = await client.messages.create({ ...greedy, max_tokens: 3 });
    assert.deepEqual([cut.stop_reason, cut.usage.output_tokens], ['max_tokens', 3]);
  });

  test('structured output', async () => {
    const format = { type: 'json_schema', schema: z.toJSONSchema(Person) };
    const options = { ...greedy, max_tokens: 90, output_config: { format } };
    Person.strict().parse(JSON.parse(text(await client.messages.create(options))));
    // `zodOutputFormat` removes bounds from schemas, so this one has none.
    const Sky = z.object({ colour: z.enum(['blue', 'grey']), windy: z.boolean() });
    const sky = { ...greedy, max_tokens: 40, output_config: { format: zodOutputFormat(Sky) } };
    const parsed = (await client.messages.parse(sky)).parsed_output;
    Sky.strict().parse(parsed);
    assert.deepEqual((await client.messages.stream(sky).finalMessage()).parsed_output, parsed);
  });

  test('counted tokens are those of the usage', async () => {
    const { input_tokens } = await client.messages.countTokens({ model, messages, tools });
    const { usage } = await client.messages.create({ ...greedy, tools, max_tokens: 1 });
    const cached = (usage.cache_creation_input_tokens ?? 0) + (usage.cache_read_input_tokens ?? 0);
    assert.equal(input_tokens, usage.input_tokens + cached);
  });
});

describe('tools', () => {
  test('a call, by any and by name', async () => {
    assert.ok(toolUses(await client.messages.create(mustCall)).length > 0);
    const options = { ...mustCall, tool_choice: { type: 'tool', name: 'search', disable_parallel_tool_use: true } };
    assert.deepEqual(toolUses(await client.messages.create(options)).map((call) => call.name), ['search']);
  });

  test('a streamed call is the call in pieces', async () => {
    const whole = toolUses(await client.messages.create(mustCall));
    const stream = client.messages.stream(mustCall);
    const inputs = [];
    stream.on('streamEvent', (event) => {
      if (event.type === 'content_block_start') inputs.push('');
      if (event.type === 'content_block_delta') inputs[event.index] += event.delta.partial_json;
    });
    assert.deepEqual(toolUses(await stream.finalMessage()), whole);
    assert.deepEqual(inputs.map((input) => JSON.parse(input)), whole.map((call) => call.input));
  });

  for (const result of [{ content: 'clear' }, { content: [{ type: 'text', text: 'lost' }], is_error: true }]) {
    test(`from the call to the final answer, with an error: ${result.is_error ?? false}`, async () => {
      const { content } = await client.messages.create(mustCall);
      const results = content.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, ...result }));
      const conversation = [...weather, { role: 'assistant', content }, { role: 'user', content: results }];
      const options = { ...withTools, messages: conversation, tool_choice: { type: 'none' }, max_tokens: 12 };
      assert.ok(text(await client.messages.create(options)));
    });
  }
});

describe('other routes and errors', () => {
  test('models', async () => {
    const listed = await collect(client.models.list());
    assert.ok(listed.some((known) => known.id === model && known.type === 'model'));
    assert.equal((await client.models.retrieve(model)).id, model);
  });

  const is = (type, kind) => (error) => error instanceof type && error.error.type === 'error' && error.type === kind;

  test('the field is named', async () => {
    for (const stream of [false, true]) {
      await assert.rejects(client.messages.create({ ...greedy, temperature: 30, stream }), (error) => {
        assert.match(error.message, /temperature/);
        return is(Anthropic.BadRequestError, 'invalid_request_error')(error);
      });
    }
  });

  test('an unknown model', async () => {
    const refused = is(Anthropic.NotFoundError, 'not_found_error');
    await assert.rejects(client.messages.create({ ...greedy, model: 'gpt-0' }), refused);
  });

  test('a wrong key', async () => {
    const stranger = new Anthropic({ ...connection, apiKey: 'wrong', maxRetries: 0 });
    await assert.rejects(stranger.messages.create(greedy), is(Anthropic.AuthenticationError, 'authentication_error'));
  });
});
