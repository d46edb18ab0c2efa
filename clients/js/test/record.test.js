import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';

import { Counterfoil, CounterfoilError, Decimal } from '../counterfoil.js';
import { recordingFetch, startServer, twoEditors } from './server.js';

let server;
let base;
before(async () => {
  server = await startServer();
  ({ base } = server);
});
after(() => server.stop());

test('a save sends only what changed, under the version that was read', async () => {
  const { id } = await twoEditors(base);
  const fetch = recordingFetch();
  const invoice = await new Counterfoil({ base, fetch }).resource('invoices').read(id);
  assert.equal(invoice.version, 1);
  assert.equal(invoice.etag, '"1"');
  assert.ok(!invoice.changed);

  invoice.data.amount = 1250;
  invoice.data.memo = 'second oven';
  assert.deepEqual(invoice.changes(), { amount: 1250, memo: 'second oven' });
  const result = await invoice.save();
  assert.ok(result.ok);
  assert.equal(result.outcome, 'saved');
  assert.equal(result.record, invoice);
  const sent = fetch.requests.at(-1);
  assert.equal(sent.method, 'PATCH');
  assert.equal(sent.headers['if-match'], '"1"');
  assert.equal(sent.body, '{"amount":1250,"memo":"second oven"}');

  assert.equal(invoice.etag, '"2"');
  assert.deepEqual(invoice.changes(), {});
  assert.equal(invoice.data.version, 2);
  invoice.data.memo = null;
  assert.ok((await invoice.save()).ok);
  assert.equal(fetch.requests.at(-1).headers['if-match'], '"2"');
  assert.equal(invoice.version, 3);
});

test('nothing changed, nothing sent', async () => {
  const { minas } = await twoEditors(base);
  assert.equal((await minas.save()).outcome, 'unchanged');
  minas.data.amount = new Decimal('1000.00');
  delete minas.data.memo;
  assert.equal((await minas.save()).outcome, 'unchanged');
  assert.equal((await minas.latest()).version, 1);
});

test('discard takes the edits back', async () => {
  const { minas } = await twoEditors(base);
  minas.data.tags.push('urgent');
  assert.deepEqual(minas.changes(), { tags: ['urgent'] });
  minas.discard();
  assert.ok(!minas.changed);
  assert.throws(() => minas.original.tags.push('x'), TypeError);
});

test('PUT sends the whole row', async () => {
  const { minas } = await twoEditors(base, { memo: 'kept' });
  minas.data.amount = 5;
  assert.ok((await minas.save({ method: 'PUT' })).ok);
  const stored = await minas.latest();
  assert.equal(stored.data.memo, 'kept');
  assert.equal(stored.data.amount, 5);
});

test('what is typed while a save is under way stays and is saved next', async () => {
  const { minas } = await twoEditors(base);
  minas.data.amount = 1100;
  minas.data.memo = 'first';
  const saving = minas.save();
  minas.data.memo = 'typed meanwhile';
  const second = minas.save();
  assert.ok((await saving).ok);
  assert.equal(minas.data.memo, 'typed meanwhile');
  assert.ok((await second).ok, 'two saves of one record follow each other: no conflict with oneself');
  const stored = await minas.latest();
  assert.equal(stored.version, 3);
  assert.equal(stored.data.memo, 'typed meanwhile');
  assert.equal(stored.data.amount, 1100);
});

test('what is typed during a merge is not put over what the merge brought', async () => {
  const { minas, toms } = await twoEditors(base);
  minas.data.memo = 'from mina';
  assert.ok((await minas.save()).ok);
  toms.data.amount = 7;
  const saving = toms.save({ onConflict: 'merge' });
  toms.data.memo = 'from tom, who did not see the other';
  const merged = await saving;
  assert.equal(merged.outcome, 'merged');
  const next = await toms.save();
  assert.ok(!next.ok);
  assert.deepEqual(next.conflict.clashes, ['memo']);
  assert.equal(next.conflict.yours.memo, 'from tom, who did not see the other');
  assert.equal((await minas.latest()).data.memo, 'from mina');
});

test('a lost answer is told; saving again is safe', async () => {
  const { id } = await twoEditors(base);
  const fetch = recordingFetch();
  const invoice = await new Counterfoil({ base, fetch }).resource('invoices').read(id);
  invoice.data.amount = 77;
  fetch.loseAnswer = true;
  await assert.rejects(invoice.save(), (error) => {
    assert.ok(error instanceof CounterfoilError);
    assert.equal(error.status, 0);
    assert.equal(error.code, 'NETWORK_ERROR');
    return true;
  });
  assert.equal(fetch.requests.filter(({ method }) => method === 'PATCH').length, 1, 'nothing is sent again by itself');
  assert.deepEqual(invoice.changes(), { amount: 77 });
  const again = await invoice.save();
  assert.equal(again.outcome, 'already-applied');
  assert.equal(invoice.version, 2);
});

test('errors that are no conflicts are thrown with what is known', async () => {
  const { mina, minas } = await twoEditors(base);
  minas.data.amount = -1;
  await assert.rejects(minas.save(), { name: 'CounterfoilError', status: 422, code: 'CHECK_FAILED', field: 'amount' });
  assert.equal(minas.data.amount, -1);
  assert.equal(minas.version, 1);
  minas.data.amount = 3;
  assert.ok((await minas.save()).ok, 'a refused save does not block the next');

  await assert.rejects(mina.read(randomUUID()), { status: 404, code: 'NOT_FOUND' });
  await assert.rejects(mina.read('no-uuid'), { status: 400, code: 'INVALID_ID' });
  await assert.rejects(mina.list({ nothing: 'eq.1' }).page(), (error) => {
    assert.equal(error.code, 'INVALID_QUERY');
    assert.equal(error.details.field, 'nothing');
    assert.match(error.requestId, /.+/);
    return true;
  });
  const nobody = new Counterfoil({ base: 'http://127.0.0.1:1' }).resource('invoices');
  await assert.rejects(nobody.read('x'), { code: 'NETWORK_ERROR', message: 'The server cannot be reached' });
});

test('an answer that the server did not word is an error with its status', async () => {
  const fetch = async () => new Response('<h1>Bad gateway</h1>', { status: 502 });
  const behind = new Counterfoil({ base, fetch }).resource('invoices');
  await assert.rejects(behind.read('x'), { status: 502, code: 'UNKNOWN' });
  const fine = async () => new Response('<h1>Log in</h1>', { status: 200 });
  await assert.rejects(new Counterfoil({ base, fetch: fine }).resource('invoices').read('x'), { code: 'INVALID_ANSWER' });
});

test('headers, actor and signal go with every request', async () => {
  const { id } = await twoEditors(base);
  const fetch = recordingFetch();
  const headers = async () => ({ authorization: 'Bearer abc' });
  const zoe = new Counterfoil({ base: `${base}/`, fetch, headers, actor: () => 'Zoë ✓' }).resource('invoices');
  const invoice = await zoe.read(id);
  invoice.data.memo = 'hi';
  await invoice.save();
  assert.equal(fetch.requests.at(-1).headers.authorization, 'Bearer abc');
  const { value: newest } = await invoice.history().next();
  assert.equal(newest.by, 'Zoë ✓');
  await assert.rejects(zoe.read(id, { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('creating gives the record, its id and version', async () => {
  const counters = new Counterfoil({ base }).resource('counters', { key: 'name' });
  const name = `a/b, c ${randomUUID()}`;
  const created = await counters.create({ name, views: 1 });
  assert.equal(created.outcome, 'created');
  assert.equal(created.record.id, name);
  created.record.data.views = 2;
  assert.ok((await created.record.save()).ok);
  assert.equal((await counters.read(name)).data.views, 2);
  await assert.rejects(counters.create({ name }), (error) => {
    assert.equal(error.code, 'ALREADY_EXISTS');
    assert.equal(error.field, 'name');
    assert.equal(error.data.views, 2);
    return true;
  });
});

test('creating under an id that is taken is a conflict', async () => {
  const { id, mina } = await twoEditors(base);
  const result = await mina.create({ number: randomUUID(), customer: 'Old Mill Theatre', amount: 1 }, { id });
  assert.ok(!result.ok);
  const { conflict } = result;
  assert.equal(conflict.kind, 'create_create');
  assert.ok(!conflict.deleted);
  assert.equal(conflict.current.customer, 'Harbour Bakery');
  assert.deepEqual([...conflict.clashes].sort(), ['amount', 'customer', 'number']);
  const kept = conflict.resolve({ amount: 'mine', customer: 'theirs', number: 'theirs' });
  assert.deepEqual(kept.changes(), { amount: 1 });
  assert.ok((await kept.save()).ok);
});

test('composite keys', async () => {
  const offers = new Counterfoil({ base }).resource('offers', { key: ['booking_id', 'provider'] });
  const records = [];
  for await (const offer of offers.list({ order: 'provider' })) records.push(offer);
  assert.ok(records.length >= 2);
  records[0].data.note = 'by hand';
  assert.ok((await records[0].save()).ok);
  assert.equal((await offers.read(records[0].id)).data.note, 'by hand');
  await assert.rejects(new Counterfoil({ base }).resource('offers').list().page(), /which fields are the key/);
});

test('lists go over all pages, and each record can be saved', async () => {
  const invoices = new Counterfoil({ base }).resource('invoices');
  const customer = `Customer ${randomUUID()}`;
  for (let i = 0; i < 7; i += 1) await invoices.create({ number: randomUUID(), customer, amount: i });
  const query = { customer: `eq.${customer}`, order: 'amount', limit: 3 };
  const amounts = [];
  for await (const { data } of invoices.list(query)) amounts.push(data.amount);
  assert.deepEqual(amounts, [0, 1, 2, 3, 4, 5, 6]);
  const sizes = [];
  for await (const page of invoices.list(query, { count: true }).pages()) sizes.push([page.records.length, page.total]);
  assert.deepEqual(sizes.map(([length]) => length), [3, 3, 1]);
  assert.equal(sizes[0][1], 7);
  const several = await invoices.list({ amount: ['gte.2', 'lt.4'], customer: `eq.${customer}` }).page();
  assert.equal(several.records.length, 2);

  const { records: [narrow] } = await invoices.list({ ...query, select: 'id,amount' }).page();
  narrow.data.amount = 99;
  await assert.rejects(narrow.save({ method: 'PUT' }), TypeError);
  assert.ok((await narrow.save()).ok);
  assert.deepEqual(Object.keys(narrow.data), ['id', 'amount', 'version']);
});

test('no digit of a large number is lost on the way there and back', async () => {
  const counters = new Counterfoil({ base }).resource('counters', { key: 'name' });
  const name = randomUUID();
  const { record } = await counters.create({ name, views: 9007199254740993n });
  assert.equal(record.data.views, 9007199254740993n);
  record.data.stock = 1;
  assert.ok((await record.save()).ok);
  record.data.views += 2n;
  assert.ok((await record.save()).ok);
  assert.equal((await counters.read(name)).data.views, 9007199254740995n);
  const raised = await counters.increment(name, 'views', 10n);
  assert.equal(raised.data.views, 9007199254741005n);

  const games = new Counterfoil({ base }).resource('games');
  const board = { pi: new Decimal('3.14159265358979323846264338327950288'), ids: [12345678901234567890n] };
  const game = (await games.create({ board })).record;
  const stored = await games.read(game.id);
  assert.equal(String(stored.data.board.pi), '3.14159265358979323846264338327950288');
  assert.equal(stored.data.board.ids[0], 12345678901234567890n);
  stored.data.board.extra = 1;
  assert.ok((await stored.save()).ok);
  assert.equal(String((await games.read(game.id)).data.board.pi), '3.14159265358979323846264338327950288');

  const other = await counters.read(name);
  record.data.views = 9007199254740997n;
  other.data.views = 9007199254740999n;
  assert.ok((await other.save()).ok);
  const { conflict } = await record.save();
  assert.deepEqual(conflict.fields.map(({ field, yours, theirs }) => [field, yours, theirs]), [
    ['views', 9007199254740997n, 9007199254740999n],
  ]);
});

test('increment needs no version, and never moves a record past changes it has not seen', async () => {
  const counters = new Counterfoil({ base }).resource('counters', { key: 'name' });
  const name = randomUUID();
  const { record } = await counters.create({ name, stock: 5 });
  const result = await record.increment('views', 2);
  assert.equal(result.record, record);
  assert.equal(record.data.views, 2);
  assert.equal(record.version, 2);

  const other = await counters.read(name);
  record.data.stock = 4;
  other.data.stock = 9;
  assert.ok((await other.save()).ok);
  const raised = await record.increment('views');
  assert.notEqual(raised.record, record);
  assert.equal(raised.record.data.views, 3);
  const { ok, conflict } = await record.save();
  assert.ok(!ok, 'the stock that somebody else saved is not overwritten unseen');
  assert.deepEqual(conflict.clashes, ['stock']);
});

test('history, and restoring a version as a conditional write', async () => {
  const { minas, toms } = await twoEditors(base, { memo: 'first' });
  minas.data.memo = 'second';
  minas.data.amount = 1;
  await minas.save();
  const entries = [];
  for await (const entry of minas.history({ limit: 1 })) entries.push(entry);
  assert.deepEqual(entries.map(({ version, op, by }) => [version, op, by]), [[2, 'update', 'mina'], [1, 'create', 'mina']]);
  assert.deepEqual(entries[0].changed, ['amount', 'memo']);
  assert.equal(entries[0].mergedFrom, null);
  assert.equal(entries[1].data.memo, 'first');
  const past = await minas.latest().then((latest) => latest.restore(1));
  assert.equal(past.outcome, 'restored');
  assert.equal(past.record.version, 3);
  assert.equal(past.record.data.memo, 'first');
  assert.equal(past.record.data.amount, 1000);

  assert.equal((await minas.restore(1)).outcome, 'already-applied', 'the row is that of version 1 already');
  const current = await toms.latest();
  current.data.memo = 'newer';
  await current.save();
  const refused = await past.record.restore(2);
  assert.ok(!refused.ok);
  assert.equal(refused.conflict.operation, 'restore');
  assert.deepEqual(refused.conflict.clashes, ['memo']);
  assert.ok((await refused.conflict.resolve({ memo: 'mine' }).save()).ok);
  assert.equal((await toms.latest()).data.memo, 'second');
});

test('a removed record can be saved back; its version goes on', async () => {
  const { minas, toms } = await twoEditors(base, { memo: 'kept' });
  const removed = await minas.remove();
  assert.equal(removed.outcome, 'removed');
  assert.ok(!minas.exists);
  assert.equal((await minas.remove()).outcome, 'already-removed');
  assert.equal((await toms.remove()).outcome, 'already-removed');
  const back = await minas.save();
  assert.equal(back.outcome, 'created');
  assert.equal(back.record.data.memo, 'kept');
  assert.equal(back.record.version, 3);
  assert.ok(!(await toms.save()).ok, 'two who bring it back: the second is told');
});

test('an earlier version can be restored over a deletion', async () => {
  const { minas } = await twoEditors(base, { memo: 'one' });
  minas.data.memo = 'two';
  await minas.save();
  await minas.remove();
  const restored = await minas.restore(1);
  assert.equal(restored.outcome, 'restored');
  assert.equal(restored.record.data.memo, 'one');
  assert.equal(restored.record.version, 4);
});

test('watch tells once of what others save, and not of what we save', async () => {
  const { minas, toms } = await twoEditors(base);
  const news = [];
  let look;
  const source = {
    subscribe(record, listener) {
      look = async () => {
        const found = await record.peek();
        if (found) await listener(found);
      };
      return () => news.push('ended');
    },
  };
  const stop = minas.watch(({ record, ...what }) => news.push(what), { source });
  await look();
  minas.data.memo = 'own';
  const saving = minas.save();
  await look();
  await saving;
  await look();
  assert.deepEqual(news, []);
  const fresh = await toms.latest();
  fresh.data.memo = 'other';
  await fresh.save();
  await look();
  await look();
  assert.deepEqual(news, [{ deleted: false, version: 3 }]);
  await fresh.remove();
  await look();
  await look();
  assert.deepEqual(news.slice(1), [{ deleted: true, version: null }]);
  stop();
  assert.equal(news.at(-1), 'ended');
});

test('polling finds news by itself and ends when told', async () => {
  const { polling } = await import('../counterfoil.js');
  const { minas, toms } = await twoEditors(base);
  const ending = new AbortController();
  const told = new Promise((resolve) => {
    minas.watch(resolve, { source: polling({ interval: 20 }), signal: ending.signal });
  });
  toms.data.memo = 'x';
  await toms.save();
  assert.equal((await told).version, 2);
  ending.abort();
});
