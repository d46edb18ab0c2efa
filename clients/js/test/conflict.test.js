import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Counterfoil, UndecidedError } from '../counterfoil.js';
import { recordingFetch, startServer, twoEditors } from './server.js';

let server;
let base;
before(async () => {
  server = await startServer();
  ({ base } = server);
});
after(() => server.stop());

/** Mina saves first; Tom's save is refused. */
async function clash(minasEdit, tomsEdit, data) {
  const editors = await twoEditors(base, data);
  Object.assign(editors.minas.data, minasEdit);
  assert.ok((await editors.minas.save()).ok);
  Object.assign(editors.toms.data, tomsEdit);
  const result = await editors.toms.save();
  assert.ok(!result.ok);
  return { ...editors, conflict: result.conflict };
}

test('a conflict is data: who, when, from which version, what clashes, what was typed', async () => {
  const { conflict, toms } = await clash({ amount: 1100, memo: 'paid' }, { amount: 1250, due_on: '2026-11-01' });
  assert.equal(conflict.kind, 'update_update');
  assert.equal(conflict.operation, 'save');
  assert.equal(conflict.yourVersion, 1);
  assert.equal(conflict.currentVersion, 2);
  assert.equal(conflict.changedBy, 'mina');
  assert.match(conflict.changedAt, /^\d{4}-\d\d-\d\dT.*\.\d{6}Z$/);
  assert.equal(conflict.baseAvailable, true);
  assert.equal(conflict.mergeable, false);
  assert.equal(conflict.deleted, false);
  assert.equal(conflict.current.amount, 1100);
  assert.deepEqual(conflict.fields.map(({ field, verdict, base, yours, theirs }) => [field, verdict, base, yours, theirs]), [
    ['amount', 'both', 1000, 1250, 1100],
    ['due_on', 'yours', '2026-10-28', '2026-11-01', '2026-10-28'],
    ['memo', 'theirs', null, null, 'paid'],
  ]);
  assert.deepEqual(conflict.clashes, ['amount']);
  assert.deepEqual(conflict.yours, { amount: 1250, due_on: '2026-11-01' });
  assert.throws(() => {
    conflict.yours.amount = 1;
  }, TypeError);
  assert.deepEqual(toms.changes(), { amount: 1250, due_on: '2026-11-01' }, 'nothing typed is lost');
  assert.equal(toms.version, 1);
});

test('different fields: one call saves both', async () => {
  const { conflict, toms, mina, id } = await clash({ memo: 'paid' }, { due_on: '2026-11-01' });
  assert.ok(conflict.mergeable);
  const result = await conflict.saveMerged();
  assert.equal(result.outcome, 'merged');
  assert.equal(result.record, toms);
  assert.equal(result.merged.base, 1);
  assert.equal(result.merged.onto, 2);
  assert.equal(toms.version, 3);
  assert.ok(!toms.changed);
  assert.equal(toms.data.memo, 'paid');
  const stored = await mina.read(id);
  assert.equal(stored.data.due_on, '2026-11-01');
  assert.equal(stored.data.memo, 'paid');
  const { value: newest } = await mina.history(id).next();
  assert.deepEqual(newest.mergedFrom, [1, 2]);
  toms.data.amount = 1;
  assert.ok((await toms.save()).ok, 'the tag is the merged one');
});

test('the same can be had at once with onConflict', async () => {
  const { minas, toms } = await twoEditors(base);
  minas.data.memo = 'paid';
  minas.data.amount = 1;
  await minas.save();
  toms.data.amount = 2;
  assert.ok(!(await toms.save({ onConflict: 'merge' })).ok);
  const mine = await toms.save({ onConflict: 'merge_mine' });
  assert.equal(mine.outcome, 'merged');
  assert.equal(mine.record.data.amount, 2);
  assert.equal(mine.record.data.memo, 'paid');
});

test('a clash is decided field by field', async () => {
  const choices = [
    ['mine', 1250],
    ['theirs', 1100],
    [{ value: 1175 }, 1175],
  ];
  for (const [choice, amount] of choices) {
    const { conflict, mina, id } = await clash({ amount: 1100, memo: 'paid' }, { amount: 1250, due_on: '2026-11-01' });
    assert.throws(() => conflict.resolve(), (error) => error instanceof UndecidedError && error.fields.join() === 'amount');
    assert.throws(() => conflict.resolve({ memo: 'mine' }), UndecidedError);
    assert.throws(() => conflict.saveMerged(), UndecidedError);
    assert.throws(() => conflict.resolve({ amount: 'mine', status: 'mine' }), /Nobody changed "status"/);
    assert.throws(() => conflict.resolve({ amount: 'ours' }), /must be/);
    const resolved = conflict.resolve({ amount: choice });
    assert.equal(resolved.version, 2);
    assert.equal(resolved.data.amount, amount);
    assert.equal(resolved.data.memo, 'paid');
    assert.equal((await mina.read(id)).version, 2, 'nothing is sent before it is saved');
    const result = await resolved.save();
    assert.ok(result.ok);
    const stored = (await mina.read(id)).data;
    assert.deepEqual([stored.amount, stored.due_on, stored.memo, stored.version], [amount, '2026-11-01', 'paid', 3]);
  }
});

test('what combines by itself can be overruled', async () => {
  const { conflict } = await clash({ amount: 1100, memo: 'paid' }, { amount: 1250, due_on: '2026-11-01' });
  const resolved = conflict.resolve({ amount: 'theirs', due_on: 'theirs', memo: { value: 'half paid' } });
  assert.deepEqual(resolved.changes(), { memo: 'half paid' });
  assert.equal(conflict.resolve({ amount: 'theirs', memo: 'mine' }).data.memo, null);
});

test('a second conflict while deciding keeps the decisions and all that was typed', async () => {
  const { conflict, minas, mina, id } = await clash(
    { amount: 1100, customer: 'Harbour Bakery Ltd' },
    { amount: 1250, customer: 'Harbor Bakery', due_on: '2026-11-01' },
  );
  assert.deepEqual([...conflict.clashes].sort(), ['amount', 'customer']);
  minas.data.amount = 1150;
  minas.data.memo = 'again';
  assert.ok((await minas.save()).ok);

  const second = await conflict.resolve({ amount: 'mine', customer: 'theirs' }).save();
  assert.ok(!second.ok);
  const next = second.conflict;
  assert.equal(next.previous, conflict);
  assert.equal(next.yourVersion, 2);
  assert.equal(next.currentVersion, 3);
  assert.deepEqual(next.clashes, ['amount'], 'only what moved again is asked again');
  assert.deepEqual(next.yours, { amount: 1250, customer: 'Harbor Bakery', due_on: '2026-11-01' });
  assert.equal(next.resolve({ amount: 'mine', customer: 'mine' }).data.customer, 'Harbor Bakery');
  const result = await next.resolve({ amount: { value: 1200 } }).save();
  assert.ok(result.ok);
  const stored = (await mina.read(id)).data;
  assert.deepEqual(
    [stored.amount, stored.customer, stored.due_on, stored.memo, stored.version],
    [1200, 'Harbour Bakery Ltd', '2026-11-01', 'again', 4],
  );
});

test('a value that its column cannot take is not lost in a conflict', async () => {
  const { conflict } = await clash({ amount: 1100 }, { amount: -5, currency: 'euro' });
  assert.equal(conflict.mergeable, false);
  assert.deepEqual([...conflict.clashes], ['amount']);
  const byField = new Map(conflict.fields.map((entry) => [entry.field, entry]));
  assert.equal(byField.get('amount').yours, -5);
  assert.equal(byField.get('currency').verdict, 'yours');
  const resolved = conflict.resolve({ amount: 'mine' });
  await assert.rejects(resolved.save(), { status: 422 });
  resolved.data.amount = 5;
  resolved.data.currency = 'USD';
  assert.ok((await resolved.save()).ok);
});

test('numbers that were typed as text clash no more than numbers', async () => {
  const { conflict } = await clash({ amount: 1100 }, { amount: '1000.00', memo: 'x' });
  assert.deepEqual(conflict.clashes, []);
  assert.ok(conflict.mergeable);
});

test('what is typed while a refused save is under way is part of the conflict', async () => {
  const { minas, toms } = await twoEditors(base, { memo: 'old' });
  Object.assign(minas.data, { memo: 'theirs', customer: 'Theirs', amount: 7 });
  await minas.save();
  Object.assign(toms.data, { due_on: '2027-01-01', customer: 'Theirs', amount: 8, currency: 'USD' });
  const saving = toms.save();
  // Typed anew, typed otherwise, typed for the first time, taken back.
  Object.assign(toms.data, { due_on: '2027-02-02', customer: 'Mine after all', memo: 'typed late', currency: 'EUR' });
  const { conflict } = await saving;
  assert.deepEqual([...conflict.clashes].sort(), ['amount', 'customer', 'memo']);
  const resolved = conflict.resolve({ amount: 'mine', customer: 'mine', memo: 'mine' });
  assert.deepEqual(resolved.changes(), { customer: 'Mine after all', amount: 8, due_on: '2027-02-02', memo: 'typed late' });
});

test('both made the same change: no conflict', async () => {
  const { minas, toms } = await twoEditors(base);
  minas.data.amount = 5;
  toms.data.amount = 5;
  await minas.save();
  const result = await toms.save();
  assert.equal(result.outcome, 'already-applied');
  assert.equal(toms.version, 2);
});

test('compare tells of the conflict before the save, and writes nothing', async () => {
  const { minas, toms } = await twoEditors(base);
  toms.data.amount = 2;
  assert.equal(await toms.compare(), null);
  assert.equal(toms.version, 1);
  minas.data.amount = 1;
  await minas.save();
  const conflict = await toms.compare();
  assert.deepEqual(conflict.clashes, ['amount']);
  assert.equal((await minas.latest()).version, 2);
});

test('a deletion under an editor: what was typed can be restored with the record', async () => {
  const { minas, toms, mina, id } = await twoEditors(base, { memo: 'old' });
  await minas.remove();
  toms.data.memo = 'typed';
  const { ok, conflict } = await toms.save();
  assert.ok(!ok);
  assert.ok(conflict.deleted);
  assert.equal(conflict.kind, 'update_delete');
  assert.equal(conflict.changedBy, 'mina');
  assert.equal(conflict.currentVersion, 2);
  assert.equal(conflict.current.memo, 'old');
  assert.deepEqual(conflict.yours, { memo: 'typed' });
  assert.deepEqual(conflict.clashes, []);
  await assert.rejects(mina.read(id), { status: 410, code: 'RECORD_DELETED' });
  const restored = await conflict.restore();
  assert.equal(restored.outcome, 'created');
  assert.equal(restored.record.version, 3);
  const stored = (await mina.read(id)).data;
  assert.equal(stored.memo, 'typed');
  assert.equal(stored.amount, 1000);
});

test('changed, then deleted: the clash is still asked about', async () => {
  const { minas, toms } = await twoEditors(base);
  minas.data.amount = 1100;
  minas.data.memo = 'theirs';
  await minas.save();
  await minas.remove();
  toms.data.amount = 1250;
  const { conflict } = await toms.save();
  assert.deepEqual(conflict.clashes, ['amount']);
  assert.throws(() => conflict.restore(), UndecidedError);
  const restored = await conflict.restore({ amount: 'mine' });
  assert.equal(restored.record.data.amount, 1250);
  assert.equal(restored.record.data.memo, 'theirs');
});

test('two who restore: the second is told, and keeps what was typed', async () => {
  const { minas, toms } = await twoEditors(base);
  await minas.remove();
  toms.data.memo = 'typed by tom';
  const { conflict } = await toms.save();
  minas.data.memo = 'brought back by mina';
  assert.ok((await minas.save()).ok);
  const second = await conflict.restore();
  assert.ok(!second.ok);
  assert.ok(!second.conflict.deleted);
  assert.deepEqual(second.conflict.clashes, ['memo']);
  assert.equal(second.conflict.yours.memo, 'typed by tom');
  const third = await second.conflict.resolve({ memo: 'mine' }).save();
  assert.ok(third.ok);
  assert.equal(third.record.data.memo, 'typed by tom');
});

test('a stale removal is a conflict, and deleting can go on from what is there', async () => {
  const { minas, toms } = await twoEditors(base);
  minas.data.amount = 5;
  await minas.save();
  const { ok, conflict } = await toms.remove();
  assert.ok(!ok);
  assert.equal(conflict.operation, 'remove');
  assert.equal(conflict.kind, 'delete_update');
  assert.equal(conflict.changedBy, 'mina');
  assert.equal(conflict.current.amount, 5);
  assert.equal(conflict.mergeable, false);
  assert.equal((await conflict.resolve().remove()).outcome, 'removed');
});

test('without history the list has two sides and everything that differs needs a decision', async () => {
  const { id } = await twoEditors(base);
  const bare = async (url, init) => {
    const response = await fetch(url, init);
    if (response.status !== 409) return response;
    const body = await response.json();
    const { your_version, current_version, kind } = body.error.details;
    body.error.details = { your_version, current_version, kind };
    return new Response(JSON.stringify(body), { status: 409, headers: response.headers });
  };
  const invoices = new Counterfoil({ base, fetch: bare }).resource('invoices');
  const [mine, other] = [await invoices.read(id), await invoices.read(id)];
  Object.assign(other.data, { amount: 1, memo: 'theirs' });
  await other.save();
  Object.assign(mine.data, { amount: 2, customer: 'Mine' });
  const { conflict } = await mine.save();
  assert.equal(conflict.baseAvailable, false);
  assert.equal(conflict.mergeable, false);
  assert.deepEqual(Object.fromEntries(conflict.fields.map(({ field, verdict }) => [field, verdict])), {
    memo: 'theirs',
    amount: 'both',
    customer: 'yours',
  });
  assert.ok((await conflict.resolve({ amount: 'mine' }).save()).ok);
});

test('a conflict sends nothing by itself', async () => {
  const { id, minas } = await twoEditors(base);
  const fetch = recordingFetch();
  const invoice = await new Counterfoil({ base, fetch }).resource('invoices').read(id);
  minas.data.memo = 'x';
  await minas.save();
  invoice.data.amount = 3;
  const { conflict } = await invoice.save();
  conflict.resolve();
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual(fetch.requests.map(({ method }) => method), ['GET', 'PATCH']);
});

test('many editors who merge: no edit is lost', async () => {
  const { id, mina } = await twoEditors(base);
  const fields = ['customer', 'amount', 'due_on', 'memo'];
  const values = { customer: 'A', amount: 1, due_on: '2027-01-01', memo: 'M' };
  const editors = await Promise.all(fields.map(() => mina.read(id)));
  await Promise.all(
    editors.map(async (editor, i) => {
      editor.data[fields[i]] = values[fields[i]];
      let result = await editor.save();
      while (!result.ok) result = await result.conflict.saveMerged();
    }),
  );
  const stored = (await mina.read(id)).data;
  assert.deepEqual(Object.fromEntries(fields.map((field) => [field, stored[field]])), values);
  assert.equal(stored.version, 5);
});
