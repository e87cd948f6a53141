// TypeSafe's SDK for JavaScript.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NotFoundError, TypeSafeClient, UnprocessableEntityError, choice, noul, score } from '@typesafe-ai/sdk';

import { model, server } from './shapes.mjs';

const baseURL = server.baseURL.replace(/\/v1$/, '');
const client = new TypeSafeClient({ apiKey: server.apiKey, baseURL, maxRetries: 0 });
const questions = {
  angry: noul('Is the customer angry?'),
  team: choice('Which team should answer?', { billing: null, sales: 'new orders' }),
  urgency: score('How urgent is it?', ['low', 'middle', 'high']),
};

test('questions of all types', async () => {
  for (const name of [model, undefined]) {
    const { answers, usage } = await client.systemOne({ model: name, state: { mail: 'I was charged twice.' }, questions });
    assert.ok(answers.angry.noul > 0 && answers.angry.noul < 1);
    const { billing, sales } = answers.team.probabilities;
    assert.ok(Math.abs(billing + sales - 1) < 1e-12);
    assert.equal(answers.team.choice, billing >= sales ? 'billing' : 'sales');
    assert.deepEqual(answers.urgency.legend, { 0: 'low', 1: 'middle', 2: 'high' });
    assert.ok(usage.input_tokens > 0);
  }
});

test('errors have their classes', async () => {
  const box = { a: { type: 'box', instructions: 'Where?' } };
  await assert.rejects(client.systemOne({ model, state: 'x', questions: box }), UnprocessableEntityError);
  await assert.rejects(client.systemOne({ model: 'nothing', state: 'x', questions }), NotFoundError);
});
