// Tests the Vercel AI SDK with its provider for compatible servers and with its OpenAI provider.
// The OpenAI provider uses chat completions and responses.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, Output, embedMany, generateObject, generateText, isStepCount, streamObject, streamText, tool } from 'ai';

import { Person, Search, Weather, checkArguments, collect, middle, model, server } from './shapes.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;

const compatible = createOpenAICompatible({
  ...server, name: 'formwork', includeUsage: true, supportsStructuredOutputs: true,
});
const openai = createOpenAI(server);
const providers = {
  'openai-compatible': compatible(model),
  'openai chat': openai.chat(model),
  'openai responses': openai.responses(model),
};
const prompt = 'Tell me about the sea.';
const once = { maxRetries: 0, temperature: 0, maxOutputTokens: 16 };

const called = [];
const tools = {
  get_weather: tool({
    description: 'The weather in a city.',
    inputSchema: Weather,
    execute: async (input) => (called.push(input), { sky: 'clear', degrees: 7 }),
  }),
  search: tool({ description: 'Searches a library.', inputSchema: Search, execute: async () => ['a book'] }),
};
const withTools = { ...once, maxOutputTokens: 60, prompt: 'What is the weather in Oslo?', tools };

for (const [name, language] of Object.entries(providers)) {
  describe(name, () => {
    test('plain and streamed', async () => {
      const { text, usage } = await generateText({ ...once, model: language, prompt });
      assert.ok(text);
      assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
      const stream = streamText({ ...once, model: language, prompt });
      assert.equal((await collect(stream.textStream)).join(''), text);
      assert.equal((await stream.usage).outputTokens, usage.outputTokens);
      assert.ok(['stop', 'length'].includes(await stream.finishReason));
    });

    test('structured output', async () => {
      const options = { ...once, model: language, maxOutputTokens: 90, prompt: 'Describe a sailor.' };
      const { output } = await generateText({ ...options, output: Output.object({ schema: Person }) });
      Person.strict().parse(output);
      const { object } = await generateObject({ ...options, schema: Person });
      Person.strict().parse(object);
      const stream = streamObject({ ...options, schema: Person });
      const pieces = await collect(stream.partialObjectStream);
      assert.deepEqual(pieces.at(-1), await stream.object);
    });

    test('one of some choices', async () => {
      const output = Output.choice({ options: ['ebb', 'flow'] });
      const answer = await generateText({ ...once, model: language, maxOutputTokens: 30, prompt, output });
      assert.ok(['ebb', 'flow'].includes(answer.output));
    });

    test('none means text', async () => {
      const answer = await generateText({ ...withTools, model: language, toolChoice: 'none', maxOutputTokens: 12 });
      assert.ok(answer.text);
      assert.equal(answer.toolCalls.length, 0);
    });

    test('auto means either', async () => {
      const answer = await generateText({ ...withTools, model: language });
      assert.ok(answer.text || answer.toolCalls.length > 0);
      for (const call of answer.toolCalls) checkArguments(call.toolName, call.input);
    });

    for (const toolChoice of ['required', { type: 'tool', toolName: 'search' }]) {
      test(`a call, by ${toolChoice.type ?? toolChoice}`, async () => {
        const answer = await generateText({ ...withTools, model: language, toolChoice });
        assert.ok(answer.toolCalls.length > 0);
        for (const call of answer.toolCalls) {
          assert.ok(!call.invalid);
          checkArguments(call.toolName, call.input);
          if (toolChoice.toolName) assert.equal(call.toolName, toolChoice.toolName);
        }
        if (toolChoice === 'required') assert.equal(answer.finishReason, 'tool-calls');
      });
    }

    test('a streamed call is the call in pieces', async () => {
      const options = { ...withTools, model: language, toolChoice: 'required' };
      const whole = await generateText(options);
      const stream = streamText(options);
      const parts = await collect(stream.fullStream);
      const strip = (calls) => calls.map(({ toolName, input }) => ({ toolName, input }));
      assert.deepEqual(strip(await stream.toolCalls), strip(whole.toolCalls));
      const text = parts.filter((part) => part.type === 'tool-input-delta').map((part) => part.delta).join('');
      assert.deepEqual(JSON.parse(text.slice(0, text.indexOf('}') + 1)), whole.toolCalls[0].input);
    });

    test('from the call to the final answer', async () => {
      const before = called.length;
      const answer = await generateText({
        ...withTools,
        model: language,
        stopWhen: isStepCount(2),
        prepareStep: ({ stepNumber }) => ({
          toolChoice: stepNumber === 0 ? { type: 'tool', toolName: 'get_weather' } : 'none',
        }),
      });
      assert.equal(answer.steps.length, 2);
      assert.ok(called.length > before);
      assert.ok(answer.text);
    });

    test('errors', async () => {
      const status = (code) => (error) => APICallError.isInstance(error) && error.statusCode === code;
      await assert.rejects(generateText({ ...once, model: language, prompt, temperature: 30 }), (error) => {
        assert.match(error.message, /temperature/);
        return status(400)(error);
      });
      const stranger = createOpenAI({ ...server, apiKey: 'wrong' });
      await assert.rejects(generateText({ ...once, model: stranger.chat(model), prompt }), status(401));
      await assert.rejects(generateText({ ...once, model: openai.chat('gpt-0'), prompt }), status(404));
    });

    test('clients that go away make room', async () => {
      const endless = { ...once, model: language, prompt, maxOutputTokens: 1500 };
      const abandon = () => assert.rejects(generateText({ ...endless, abortSignal: AbortSignal.timeout(300) }));
      await Promise.all(Array.from({ length: 8 }, abandon));
      const started = performance.now();
      await generateText({ ...once, model: language, prompt, maxOutputTokens: 16 });
      assert.ok(performance.now() - started < 10_000);
    });
  });
}

for (const name of ['openai-compatible', 'openai chat']) {
  test(`${name}: sampling`, async () => {
    const say = async (options) => (await generateText({ ...once, model: providers[name], prompt, ...options })).text;
    const whole = await say({});
    const { stop, before } = middle(whole);
    assert.equal(await say({ stopSequences: [stop] }), before);
    const random = { temperature: 1, topP: 0.9, presencePenalty: 0.1, frequencyPenalty: 0.1, seed: 3 };
    assert.equal(await say(random), await say(random));
  });
}

test('openai chat: log-probabilities', async () => {
  const options = { providerOptions: { openai: { logprobs: 2 } } };
  const { providerMetadata, text } = await generateText({ ...once, model: providers['openai chat'], prompt, ...options });
  const tokens = providerMetadata.openai.logprobs;
  assert.ok(tokens.length > 0 && tokens.every((token) => token.logprob <= 0));
  assert.ok(text);
});

test('completions', async () => {
  for (const complete of [compatible.completionModel(model), openai.completion(model)]) {
    assert.ok((await generateText({ ...once, model: complete, prompt })).text);
  }
});

test('embeddings', async () => {
  for (const embedder of [compatible.embeddingModel(model), openai.embedding(model)]) {
    const values = ['The sea is blue.', 'A stone is hard.'];
    const { embeddings } = await embedMany({ model: embedder, values, maxRetries: 0 });
    assert.equal(embeddings.length, 2);
    assert.ok(embeddings[0].length > 100);
  }
});
