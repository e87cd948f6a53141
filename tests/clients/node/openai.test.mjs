// OpenAI's official client for Node.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';

import { Person, Search, Weather, checkArguments, collect, middle, model, server } from './shapes.mjs';

// Retries are off, so that a second attempt cannot hide a failure.
const client = new OpenAI({ ...server, maxRetries: 0, timeout: 50_000 });
const messages = [{ role: 'user', content: 'Tell me about the sea.' }];
const weather = [{ role: 'user', content: 'What is the weather in Oslo?' }];
const greedy = { model, messages, temperature: 0, max_tokens: 16 };
const tools = [
  zodFunction({ name: 'get_weather', description: 'The weather in a city.', parameters: Weather }),
  zodFunction({ name: 'search', description: 'Searches a library.', parameters: Search }),
];
const withTools = { model, messages: weather, temperature: 0, max_tokens: 60, tools };

const chat = (options) => client.chat.completions.create(options);
const calls = (message) => (message.tool_calls ?? []).map((call) => [call.function.name, call.function.arguments]);

function checkCalls(message) {
  assert.ok(message.tool_calls.length > 0);
  for (const [name, args] of calls(message)) checkArguments(name, args);
  assert.equal(new Set(message.tool_calls.map((call) => call.id)).size, message.tool_calls.length);
}

describe('chat', () => {
  test('plain and streamed', async () => {
    const answer = await chat(greedy);
    assert.ok(answer.choices[0].message.content);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
    const chunks = await collect(await chat({ ...greedy, stream: true, stream_options: { include_usage: true } }));
    const usage = chunks.pop();
    assert.deepEqual(usage.choices, []);
    assert.equal(usage.usage.completion_tokens, answer.usage.completion_tokens);
    const text = chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join('');
    assert.equal(text, answer.choices[0].message.content);
    assert.equal(chunks.at(-1).choices[0].finish_reason, answer.choices[0].finish_reason);
  });

  test('the stream helper', async () => {
    const stream = client.chat.completions.stream(greedy);
    let text = '';
    stream.on('content', (delta) => (text += delta));
    const completion = await stream.finalChatCompletion();
    assert.ok(text);
    assert.equal(completion.choices[0].message.content, text);
    assert.equal((await stream.finalMessage()).role, 'assistant');
  });

  test('structured output', async () => {
    const response_format = zodResponseFormat(Person, 'person');
    const options = { ...greedy, max_tokens: 90, response_format };
    const answer = await client.chat.completions.parse(options);
    const { message } = answer.choices[0];
    Person.strict().parse(message.parsed);
    // The message is sent back with the fields that the client added to it.
    const more = [...messages, message, { role: 'user', content: 'Go on.' }];
    assert.ok((await chat({ ...greedy, messages: more, max_tokens: 4 })).choices[0].message.content);
    const streamed = await client.chat.completions.stream(options).finalChatCompletion();
    assert.deepEqual(streamed.choices[0].message.parsed, answer.choices[0].message.parsed);
  });

  test('stop', async () => {
    const whole = (await chat(greedy)).choices[0].message.content;
    const { stop, before } = middle(whole);
    const answer = await chat({ ...greedy, stop });
    assert.equal(answer.choices[0].message.content, before);
    assert.equal(answer.choices[0].finish_reason, 'stop');
  });

  test('a seed repeats', async () => {
    const say = async () => (await chat({ ...greedy, temperature: 1, seed: 3 })).choices[0].message.content;
    assert.equal(await say(), await say());
  });

  test('several choices', async () => {
    const options = { ...greedy, temperature: 1, seed: 3, n: 2 };
    const answer = await chat(options);
    assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1]);
    const streamed = await client.chat.completions.stream(options).finalChatCompletion();
    const texts = (completion) => completion.choices.map((choice) => choice.message.content);
    assert.deepEqual(texts(streamed), texts(answer));
  });

  test('log-probabilities', async () => {
    const options = { ...greedy, logprobs: true, top_logprobs: 2 };
    const [choice] = (await chat(options)).choices;
    const bytes = choice.logprobs.content.flatMap((token) => token.bytes);
    assert.equal(Buffer.from(bytes).toString(), choice.message.content);
    for (const { token, logprob, top_logprobs } of choice.logprobs.content) {
      assert.ok(logprob <= 0);
      assert.equal(top_logprobs.length, 2);
      assert.equal(top_logprobs[0].token, token);
    }
    const streamed = await client.chat.completions.stream(options).finalChatCompletion();
    assert.deepEqual(streamed.choices[0].logprobs.content, choice.logprobs.content);
  });
});

describe('tools', () => {
  test('none means text', async () => {
    const { message } = (await chat({ ...withTools, tool_choice: 'none', max_tokens: 12 })).choices[0];
    assert.ok(message.content);
    assert.equal(message.tool_calls, undefined);
  });

  test('auto means either', async () => {
    const [choice] = (await chat(withTools)).choices;
    if (choice.message.tool_calls) checkCalls(choice.message);
    else assert.ok(choice.message.content);
    assert.equal(choice.finish_reason === 'tool_calls', Boolean(choice.message.tool_calls));
  });

  for (const parallel_tool_calls of [true, false]) {
    test(`required means a call, in parallel: ${parallel_tool_calls}`, async () => {
      const options = { ...withTools, tool_choice: 'required', parallel_tool_calls, max_tokens: 120 };
      const [choice] = (await chat(options)).choices;
      checkCalls(choice.message);
      assert.equal(choice.finish_reason, 'tool_calls');
      if (!parallel_tool_calls) assert.equal(choice.message.tool_calls.length, 1);
    });
  }

  const search = { type: 'function', function: { name: 'search' } };
  const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [search] } };
  for (const tool_choice of [search, allowed]) {
    test(`a tool by ${tool_choice.type}`, async () => {
      const { message } = (await chat({ ...withTools, tool_choice })).choices[0];
      checkCalls(message);
      assert.ok(calls(message).every(([name]) => name === 'search'));
    });
  }

  test('a streamed call is the call in pieces', async () => {
    const options = { ...withTools, tool_choice: 'required' };
    const whole = await chat(options);
    const stream = client.chat.completions.stream(options);
    const deltas = [];
    stream.on('tool_calls.function.arguments.delta', (event) => deltas.push(event));
    const streamed = await stream.finalChatCompletion();
    assert.deepEqual(calls(streamed.choices[0].message), calls(whole.choices[0].message));
    assert.ok(deltas.length > 1);
    assert.equal(streamed.choices[0].finish_reason, 'tool_calls');
  });

  test('from the call to the final answer', async () => {
    const answer = await client.chat.completions.parse({ ...withTools, tool_choice: 'required' });
    const first = answer.choices[0].message;
    for (const call of first.tool_calls) checkArguments(call.function.name, call.function.parsed_arguments);
    const results = first.tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'clear' }));
    const conversation = [...weather, first, ...results];
    const last = await chat({ ...withTools, messages: conversation, tool_choice: 'none', max_tokens: 12 });
    assert.ok(last.choices[0].message.content);
  });

  for (const stream of [false, true]) {
    test(`the tool runner, streaming: ${stream}`, async () => {
      const called = [];
      const run = (name) => (args) => (called.push([name, args]), 'clear');
      const runner = client.chat.completions.runTools(
        {
          ...withTools,
          stream,
          tool_choice: { type: 'function', function: { name: 'get_weather' } },
          tools: tools.map((tool) => ({
            type: 'function',
            function: { ...tool.function, parse: JSON.parse, function: run(tool.function.name) },
          })),
        },
        { maxChatCompletions: 2 },
      );
      await runner.done();
      assert.ok(called.length > 0);
      for (const [name, args] of called) checkArguments(name, args);
    });
  }
});

describe('responses', () => {
  const base = { model, input: 'Tell me about the sea.', temperature: 0, max_output_tokens: 16 };
  const clerk = {
    model,
    input: 'What is the weather in Oslo?',
    temperature: 0,
    max_output_tokens: 60,
    tools: [zodResponsesFunction({ name: 'get_weather', parameters: Weather })],
  };

  test('plain and in events', async () => {
    const response = await client.responses.create(base);
    assert.ok(response.output_text);
    const events = await collect(await client.responses.create({ ...base, stream: true }));
    assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, index) => index));
    const deltas = events.filter((event) => event.type === 'response.output_text.delta');
    assert.equal(deltas.map((event) => event.delta).join(''), response.output_text);
  });

  test('structured output', async () => {
    const text = { format: zodTextFormat(Person, 'person') };
    const options = { ...base, max_output_tokens: 90, text };
    Person.strict().parse((await client.responses.parse(options)).output_parsed);
    const stream = client.responses.stream(options);
    Person.strict().parse((await stream.finalResponse()).output_parsed);
  });

  test('from the call to the final answer', async () => {
    const first = await client.responses.parse({ ...clerk, tool_choice: 'required' });
    const found = first.output.filter((item) => item.type === 'function_call');
    assert.ok(found.length > 0);
    for (const call of found) checkArguments(call.name, call.parsed_arguments);
    const results = found.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'clear' }));
    const input = [{ role: 'user', content: clerk.input }, ...first.output, ...results];
    const last = await client.responses.create({ ...clerk, input, tool_choice: 'none', max_output_tokens: 12 });
    assert.ok(last.output_text);
  });

  test('events of calls', async () => {
    const stream = client.responses.stream({ ...clerk, tool_choice: 'required' });
    let args = '';
    stream.on('response.function_call_arguments.delta', (event) => {
      if (event.output_index === 0) args += event.delta;
    });
    const final = await stream.finalResponse();
    assert.equal(final.output[0].arguments, args);
  });
});

describe('other routes', () => {
  test('completions', async () => {
    const options = { model, prompt: 'The sea is', temperature: 0, max_tokens: 8 };
    const answer = await client.completions.create(options);
    const chunks = await collect(await client.completions.create({ ...options, stream: true }));
    assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(''), answer.choices[0].text);
  });

  test('embeddings', async () => {
    const { data } = await client.embeddings.create({ model, input: ['The sea is blue.', 'A stone is hard.'] });
    assert.deepEqual(data.map((item) => item.index), [0, 1]);
    assert.ok(data[0].embedding.length > 100);
    assert.ok(data.every((item) => Array.from(item.embedding).every(Number.isFinite)));
  });

  test('models', async () => {
    const listed = await collect(client.models.list());
    assert.ok(listed.some((known) => known.id === model));
    assert.equal((await client.models.retrieve(model)).id, model);
  });
});

describe('errors', () => {
  test('the field is named', async () => {
    const refused = (error) => error instanceof OpenAI.BadRequestError && error.param === 'temperature';
    await assert.rejects(chat({ ...greedy, temperature: 30 }), refused);
    await assert.rejects(chat({ ...greedy, temperature: 30, stream: true }), refused);
  });

  test('an unknown model', async () => {
    const refused = (error) => error instanceof OpenAI.NotFoundError && error.code === 'model_not_found';
    await assert.rejects(chat({ ...greedy, model: 'gpt-0' }), refused);
  });

  test('a wrong key', async () => {
    const stranger = new OpenAI({ ...server, apiKey: 'wrong', maxRetries: 0 });
    const refused = (error) => error instanceof OpenAI.AuthenticationError && error.code === 'invalid_api_key';
    await assert.rejects(stranger.chat.completions.create(greedy), refused);
  });

  test('clients that go away make room', async () => {
    const endless = { ...greedy, max_tokens: 1500, logit_bias: { 2: -100 } };
    const late = (error) => error instanceof OpenAI.APIConnectionTimeoutError;
    const abandon = () => assert.rejects(client.chat.completions.create(endless, { timeout: 300 }), late);
    const leave = async () => {
      const stream = await client.chat.completions.create({ ...endless, stream: true });
      for await (const _ of stream) break;
    };
    await Promise.all(Array.from({ length: 12 }, (_, index) => (index % 2 ? abandon() : leave())));
    const started = performance.now();
    await chat({ ...greedy, max_tokens: 4 });
    assert.ok(performance.now() - started < 10_000);
  });
});

describe('decisions', () => {
  const questions = [
    { type: 'predicate', name: 'angry', instructions: 'Is the customer angry?' },
    { type: 'choice', instructions: 'Which team?', choices: [{ value: true }, { value: 'true' }] },
    { type: 'score', instructions: 'How urgent?', levels: [{ label: 'low' }, { label: 'high' }] },
  ];

  test('three types in one request', async () => {
    const { answers, usage } = await client.decisions.create({ model, input: 'I was charged twice.', questions });
    assert.deepEqual(answers.map((answer) => [answer.type, answer.name]), [['predicate', 'angry'], ['choice', null], ['score', null]]);
    assert.deepEqual(answers[1].probabilities.map((entry) => entry.value), [true, 'true']);
    for (const answer of answers.slice(1)) {
      const sum = answer.probabilities.reduce((total, entry) => total + entry.probability, 0);
      assert.ok(Math.abs(sum - 1) < 1e-12);
    }
    assert.equal(usage.output_tokens, 0);
  });

  test('a fault names its field', async () => {
    const faulty = client.decisions.create({ model, input: 'x', questions: [] });
    await assert.rejects(faulty, (error) => error instanceof OpenAI.BadRequestError && error.param === 'questions');
  });
});
