import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';

import { Counterfoil, Decimal } from '../counterfoil.js';
import { Offline, memoryStore } from '../offline.js';
import { TABLES } from '../lib/offline/tables.js';
import { startServer } from './server.js';

let server;
let base;
let direct;
before(async () => {
  server = await startServer();
  ({ base } = server);
  direct = new Counterfoil({ base, actor: 'tom' }).resource('invoices');
});
after(() => server?.stop());

/** An app of its own: a store, and what talks to it. */
async function app({ store = memoryStore(), resources = ['invoices'], ...options } = {}) {
  const offline = await Offline.open({ base, actor: 'mina', name: randomUUID(), resources, store, ...options });
  return { offline, invoices: offline.resource('invoices'), store };
}

function invoice(values = {}) {
  const id = randomUUID();
  return { id, number: id, customer: 'Harbour Bakery', amount: 1000, due_on: '2026-10-28', memo: null, ...values };
}

/** An invoice that the server and the app have. */
async function known({ offline }, values) {
  const row = invoice(values);
  await direct.create(row, { id: row.id });
  await offline.sync();
  return row.id;
}

async function theirs(id, changes) {
  const record = await direct.read(id);
  Object.assign(record.data, changes);
  const result = await record.save();
  assert.ok(result.ok);
  return result.record;
}

const stored = async (id) => (await direct.read(id)).data;

async function versions(id) {
  const all = [];
  for await (const entry of direct.history(id)) all.push(entry);
  return all.reverse();
}

/** What the app shows is what the server has. */
async function converged(...apps) {
  const rows = new Map();
  for await (const record of direct.list({ limit: 1000 })) rows.set(record.id, record.data);
  for (const { offline, invoices } of apps) {
    assert.equal(await offline.pending(), 0);
    const here = new Map((await invoices.all()).map(({ id, data }) => [id, data]));
    assert.deepEqual([...here.keys()].sort(), [...rows.keys()].sort());
    for (const [id, row] of rows) assert.deepEqual(here.get(id), row);
  }
}

/** A fetch whose answers, or requests, get lost where `when(number)` says so. */
function unreliable({ when, sent = true }) {
  let count = 0;
  return async (url, init) => {
    count += 1;
    if (!when(count)) return fetch(url, init);
    if (sent) await (await fetch(url, init)).text();
    throw new TypeError('connection reset');
  };
}

test('edits made offline reach the server in order, each once', async () => {
  const mina = await app();
  await mina.offline.sync();
  const id = await mina.invoices.create(invoice({ memo: 'first' }));
  await mina.invoices.patch(id, { memo: 'second' });
  await mina.invoices.patch(id, { amount: 1250 });
  const gone = await mina.invoices.create(invoice());
  await mina.invoices.remove(gone);

  const here = await mina.invoices.get(id);
  assert.equal(here.data.memo, 'second');
  assert.equal(here.data.amount, 1250);
  assert.equal(here.pending, 3);
  assert.equal(await mina.invoices.get(gone), null);
  assert.equal(await mina.offline.pending(), 5);
  await assert.rejects(direct.read(id), { code: 'NOT_FOUND' });

  assert.equal((await mina.offline.sync()).pushed, 5);
  assert.deepEqual((await versions(id)).map(({ op, by }) => `${op} ${by}`), ['create mina', 'update mina', 'update mina']);
  await assert.rejects(direct.read(gone), { code: 'RECORD_DELETED' });
  const row = await mina.invoices.get(id);
  assert.equal(row.version, 3);
  assert.equal(row.pending, 0);
  assert.equal((await mina.offline.sync()).pushed, 0);
  await converged(mina);
});

test('what others do comes down, deletions too, and pages of one row do', async () => {
  const mina = await app({ pageSize: 1 });
  const id = await known(mina);
  const other = await known(mina);
  await theirs(id, { memo: 'from tom' });
  await (await direct.read(other)).remove();
  const made = invoice({ amount: new Decimal('99.90') });
  await direct.create(made, { id: made.id });
  const told = [];
  mina.offline.subscribe((news) => told.push(news));
  await mina.offline.sync();
  assert.equal((await mina.invoices.get(id)).data.memo, 'from tom');
  assert.equal(await mina.invoices.get(other), null);
  assert.equal((await mina.invoices.get(made.id)).data.number, made.id);
  const rows = told.filter(({ type }) => type === 'rows').flatMap(({ ids }) => ids);
  assert.deepEqual(rows.sort(), [id, other, made.id].sort());
  await converged(mina);
});

test('no digit is lost on the way', async () => {
  const mina = await app({ resources: ['invoices', 'counters'] });
  const id = await mina.invoices.create(invoice({ lines: [{ n: 9007199254740993n, d: new Decimal('0.10000000000000000000001') }] }));
  await mina.offline.sync();
  const { lines } = (await mina.invoices.get(id)).data;
  assert.equal(lines[0].n, 9007199254740993n);
  assert.equal(String(lines[0].d), '0.10000000000000000000001');
  assert.equal(String((await stored(id)).lines[0].d), '0.10000000000000000000001');
});

test('a clash is kept with the row as it stands until somebody decides', async () => {
  const mina = await app();
  const id = await known(mina);
  await mina.invoices.patch(id, { amount: 1250, due_on: '2026-11-01' });
  await mina.invoices.patch(id, { memo: 'after that' });
  await theirs(id, { amount: 1100 });
  await mina.offline.sync();

  const row = await mina.invoices.get(id);
  assert.equal(row.data.amount, 1100, 'their row is shown');
  assert.equal(row.problem, 'conflict');
  assert.equal(row.pending, 0);
  const [problem] = await mina.offline.problems();
  assert.equal(problem.id, id);
  assert.equal(problem.status, 'conflict');
  assert.equal(problem.conflict.kind, 'update_update');
  assert.equal(problem.conflict.changedBy, 'tom');
  assert.equal(problem.conflict.currentVersion, 2);
  assert.deepEqual(problem.yours, { amount: 1250, due_on: '2026-11-01', memo: 'after that' });
  assert.deepEqual(problem.conflict.clashes, ['amount']);
  assert.throws(() => problem.resolve(), { name: 'UndecidedError' });

  await problem.resolve({ amount: { value: 1175 } });
  assert.deepEqual(await mina.offline.problems(), []);
  assert.equal((await mina.invoices.get(id)).data.amount, 1175);
  await assert.rejects(Promise.resolve().then(() => problem.discard()), { name: 'TypeError' });
  await mina.offline.sync();
  const now = await stored(id);
  assert.deepEqual([now.amount, now.due_on, now.memo], [1175, '2026-11-01', 'after that']);
  await converged(mina);
});

test('discard leaves the row as the server has it', async () => {
  const mina = await app();
  const id = await known(mina);
  await mina.invoices.patch(id, { memo: 'mine' });
  await theirs(id, { memo: 'theirs' });
  await mina.offline.sync();
  const [problem] = await mina.offline.problems();
  await problem.discard();
  await mina.offline.sync();
  assert.equal((await versions(id)).length, 2);
  await converged(mina);
});

test('changes of different fields are combined where that is wished', async () => {
  const mina = await app();
  const id = await known(mina);
  await mina.invoices.patch(id, { memo: 'mine' }, { onConflict: 'merge' });
  await mina.invoices.patch(id, { due_on: '2026-12-01' }, { onConflict: 'merge' });
  await theirs(id, { amount: 7 });
  await mina.offline.sync();
  assert.deepEqual(await mina.offline.problems(), []);
  const now = await stored(id);
  assert.deepEqual([now.memo, now.due_on, now.amount], ['mine', '2026-12-01', 7]);
  await converged(mina);

  await mina.invoices.patch(id, { memo: 'again' });
  await theirs(id, { amount: 8 });
  await mina.offline.sync();
  const [problem] = await mina.offline.problems();
  assert.ok(problem.conflict.mergeable);
  await problem.saveMerged();
  await mina.offline.sync();
  assert.deepEqual(await mina.offline.problems(), []);
  assert.deepEqual([(await stored(id)).memo, (await stored(id)).amount], ['again', 8]);
});

test('an edit of a record that somebody deleted can bring it back', async () => {
  const mina = await app();
  const id = await known(mina);
  await mina.invoices.patch(id, { memo: 'still needed' });
  await (await direct.read(id)).remove();
  await mina.offline.sync();
  assert.equal(await mina.invoices.get(id), null);
  const [problem] = await mina.offline.problems();
  assert.equal(problem.conflict.kind, 'update_delete');
  assert.ok(problem.conflict.deleted);
  assert.equal(problem.conflict.current.amount, 1000, 'its last row');
  await problem.resolve();
  await mina.offline.sync();
  const now = await stored(id);
  assert.deepEqual([now.memo, now.version], ['still needed', 3]);
  await converged(mina);
});

test('a deletion of a record that somebody changed is a decision', async () => {
  const mina = await app();
  const id = await known(mina);
  await mina.invoices.remove(id);
  await theirs(id, { memo: 'new' });
  await mina.offline.sync();
  const [problem] = await mina.offline.problems();
  assert.equal(problem.operation, 'remove');
  assert.equal(problem.conflict.kind, 'delete_update');
  assert.equal((await mina.invoices.get(id)).data.memo, 'new');
  await problem.remove();
  await mina.offline.sync();
  await assert.rejects(direct.read(id), { code: 'RECORD_DELETED' });
  await converged(mina);
});

test('two that created the same record meet', async () => {
  const mina = await app();
  await mina.offline.sync();
  const row = invoice({ memo: 'mine' });
  await mina.invoices.create(row);
  await direct.create({ ...row, memo: 'theirs' }, { id: row.id });
  await mina.offline.sync();
  const [problem] = await mina.offline.problems();
  assert.equal(problem.conflict.kind, 'create_create');
  assert.equal((await mina.invoices.get(row.id)).data.memo, 'theirs');
  await problem.resolve({ memo: 'mine' });
  await mina.offline.sync();
  assert.equal((await stored(row.id)).memo, 'mine');
  await converged(mina);
});

test('what can never hold is reported, and the rest goes on', async () => {
  const mina = await app();
  const id = await known(mina);
  await mina.invoices.patch(id, { amount: -1, memo: 'kept' });
  const made = await mina.invoices.create(invoice({ customer: '' }));
  await mina.invoices.patch(made, { memo: 'based on it' });
  const good = await mina.invoices.create(invoice());
  await mina.offline.sync();
  assert.equal((await stored(good)).id, good);
  const problems = new Map((await mina.offline.problems()).map((problem) => [problem.id, problem]));
  assert.deepEqual([...problems.keys()].sort(), [id, made].sort());
  assert.equal(problems.get(id).status, 'rejected');
  assert.equal(problems.get(id).error.code, 'CHECK_FAILED');
  assert.deepEqual(problems.get(made).yours.memo, 'based on it');
  await problems.get(id).resolve({ amount: 1 });
  await problems.get(made).resolve({ customer: 'Old Mill' });
  await mina.offline.sync();
  assert.deepEqual(await mina.offline.problems(), []);
  assert.deepEqual([(await stored(id)).amount, (await stored(id)).memo], [1, 'kept']);
  assert.deepEqual([(await stored(made)).customer, (await stored(made)).memo], ['Old Mill', 'based on it']);
  await converged(mina);
});

test('an edit that the server cannot even read holds nothing up', async () => {
  const mina = await app();
  const id = await known(mina);
  await mina.invoices.patch(id, { memo: 'before' });
  await mina.invoices.patch(id, { memo: 'half a letter \ud800' });
  const large = await mina.invoices.create(invoice({ memo: 'x'.repeat(1_100_000) }));
  const good = await mina.invoices.create(invoice());
  await mina.offline.sync();
  assert.equal(await mina.offline.pending(), 0);
  assert.equal((await stored(id)).memo, 'before');
  assert.equal((await stored(good)).version, 1);
  const problems = new Map((await mina.offline.problems()).map((problem) => [problem.id, problem]));
  assert.deepEqual([...problems.keys()].sort(), [id, large].sort());
  assert.equal(problems.get(large).error.code, 'BODY_TOO_LARGE');
  assert.equal(problems.get(id).yours.memo, 'half a letter \ud800', 'nothing typed is lost');
  await problems.get(id).resolve({ memo: 'a whole one' });
  await problems.get(large).discard();
  await mina.offline.sync();
  assert.equal((await stored(id)).memo, 'a whole one');
  await converged(mina);
});

test('whichever answer is lost and whenever the process ends, every edit is made once', async () => {
  for (const sent of [true, false]) {
    for (let lost = 1; lost <= 5; lost += 1) {
      const { store, ...first } = await app();
      const id = await known(first);
      await first.invoices.patch(id, { memo: 'one' });
      await first.invoices.patch(id, { memo: 'two' });
      const made = await first.invoices.create(invoice());
      await first.offline.close();
      // A process for each try; request number `lost` of all fails.
      let requests = 0;
      for (let tries = 0; ; tries += 1) {
        const fetch = unreliable({ when: () => (requests += 1) === lost, sent });
        const { offline, invoices } = await app({ store, fetch });
        if (tries === 1) await invoices.patch(id, { memo: 'three' });
        try {
          await offline.sync();
          if (tries > 0) break;
        } catch (error) {
          assert.equal(error.code, 'NETWORK_ERROR');
        }
        await offline.close();
      }
      const memos = (await versions(id)).map(({ data }) => data.memo);
      assert.deepEqual(memos, [null, 'one', 'two', 'three'], `request ${lost}`);
      assert.equal((await versions(made)).length, 1);
      const last = await app({ store });
      assert.deepEqual(await last.offline.problems(), []);
      await last.offline.sync();
      await converged(last);
    }
  }
});

test('a store that fails at any point leaves nothing half done', async () => {
  // Two edits, a page, the results.
  for (let failing = 1; failing <= 4; failing += 1) {
    const store = memoryStore();
    let writes = -Infinity;
    const fragile = {
      open: () => store.open(),
      close: () => store.close(),
      read: (work) => store.read(work),
      write: (work) =>
        store.write(async (tx) => {
          const given = await work(tx);
          if ((writes += 1) === failing) throw new Error('disk full');
          return given;
        }),
    };
    const mina = await app({ store: fragile });
    const id = await known(mina);
    writes = 0;
    const attempt = async (work) => {
      for (let tries = 0; tries < 3; tries += 1) {
        try {
          return await work();
        } catch (error) {
          assert.equal(error.message, 'disk full');
        }
      }
      throw new Error('it fails every time');
    };
    await attempt(() => mina.invoices.patch(id, { memo: 'one' }));
    await attempt(() => mina.invoices.patch(id, { memo: 'two' }));
    const other = invoice();
    await direct.create(other, { id: other.id });
    await attempt(() => mina.offline.sync());
    assert.ok(writes > 4, 'one failed and was tried again');
    assert.deepEqual((await versions(id)).map(({ data }) => data.memo), [null, 'one', 'two'], `write ${failing}`);
    writes = -Infinity;
    await mina.offline.sync();
    await converged(mina);
  }
});

test('two tabs that push one queue at once make every edit once', async () => {
  const store = memoryStore();
  const one = await app({ store });
  const two = await app({ store });
  const id = await known(one);
  for (let n = 0; n < 20; n += 1) await (n % 2 ? one : two).invoices.patch(id, { memo: `edit ${n}` });
  const all = await Promise.allSettled([one, two, one, two].map(({ offline }) => offline.sync()));
  for (const { status, reason } of all) assert.equal(status, 'fulfilled', String(reason));
  assert.equal((await versions(id)).length, 21);
  await one.invoices.patch(id, { memo: 'after' });
  await Promise.all([one.offline.sync(), two.offline.sync()]);
  assert.equal((await versions(id)).length, 22);
  assert.deepEqual(await one.offline.problems(), []);
  await converged(one, two);
});

test('a cursor that expired: a first copy again, and the queue stays', async () => {
  let expired = false;
  const mina = await app({
    fetch: async (url, init) => {
      if (!expired || !String(url).includes('/sync/pull')) return fetch(url, init);
      expired = false;
      const error = { code: 'CURSOR_EXPIRED', message: 'gone', details: { reason: 'retention' } };
      return new Response(JSON.stringify({ error, data: null }), { status: 410 });
    },
  });
  const id = await known(mina);
  const gone = await known(mina);
  await mina.invoices.patch(id, { memo: 'waits' });
  const made = await mina.invoices.create(invoice());
  await (await direct.read(gone)).remove();
  expired = true;
  await mina.offline.sync();
  assert.equal(expired, false);
  assert.equal(await mina.invoices.get(gone), null);
  assert.equal((await stored(id)).memo, 'waits');
  assert.equal((await stored(made)).id, made);
  await converged(mina);
});

test('other resources than before are copied anew', async () => {
  const store = memoryStore();
  const mina = await app({ store });
  await known(mina);
  const more = await app({ store, resources: ['invoices', 'games'] });
  await more.offline.sync();
  assert.ok((await more.offline.resource('games').all()).length > 0);
  await converged(more);
});

async function copyOf(store) {
  const other = memoryStore();
  for (const table of TABLES) {
    const rows = await store.read((tx) => tx.list(table));
    const keys = { meta: (row) => (row.next ? 'client' : 'feed'), queue: ({ id }) => id };
    const key = keys[table] ?? (({ resource, record }) => `${resource}\n${record}`);
    await other.write(async (tx) => rows.forEach((row) => tx.put(table, key(row), row)));
  }
  return other;
}

test('a copy of a client is told apart from it', async () => {
  const mina = await app();
  const id = await known(mina);
  await mina.invoices.patch(id, { memo: 'from the first' });
  const copied = await app({ store: await copyOf(mina.store) });
  const made = await mina.invoices.create(invoice());
  const other = await copied.invoices.create(invoice());
  await mina.offline.sync();
  await copied.offline.sync();
  assert.deepEqual(await copied.offline.problems(), []);
  assert.equal((await versions(id)).length, 2, 'the edit that both had is made once');
  assert.equal((await stored(made)).id, made);
  assert.equal((await stored(other)).id, other);
  await mina.offline.sync();
  await converged(mina, copied);
});

test('a server that does not know the client any more gets what waits', async () => {
  const mina = await app();
  const id = await known(mina);
  for (const memo of ['one', 'two']) await mina.invoices.patch(id, { memo });
  await mina.offline.sync();
  await mina.store.write(async (tx) => tx.put('meta', 'client', { ...(await tx.get('meta', 'client')), id: randomUUID() }));
  for (const memo of ['three', 'four']) await mina.invoices.patch(id, { memo });
  await mina.offline.sync();
  assert.deepEqual((await versions(id)).map(({ data }) => data.memo), [null, 'one', 'two', 'three', 'four']);
  await converged(mina);
});

test('after a restore, an edit on a version that is another row now is a conflict', async () => {
  const mina = await app();
  const id = await known(mina);
  // The row that the server has under this version is not the one that was seen here.
  await mina.store.write(async (tx) => {
    const key = `invoices\n${id}`;
    tx.put('records', key, { ...(await tx.get('records', key)), row: JSON.stringify({ ...invoice({ id }), memo: 'lost', version: 1 }) });
  });
  await mina.invoices.patch(id, { memo: 'mine' });
  await mina.store.write(async (tx) => tx.put('meta', 'feed', { ...(await tx.get('meta', 'feed')), cursor: null }));
  await mina.offline.sync();
  const [problem] = await mina.offline.problems();
  assert.equal(problem.status, 'conflict');
  assert.equal((await versions(id)).length, 1);
  assert.equal((await mina.invoices.get(id)).data.memo, null);
});

test('a mutation that the database cannot do for now waits, and so does what comes after it', async () => {
  let busy = true;
  const mina = await app({
    fetch: async (url, init) => {
      if (!busy || !String(url).includes('/sync/push')) return fetch(url, init);
      busy = false;
      const { mutations } = JSON.parse(init.body);
      const error = { code: 'LOCK_TIMEOUT', message: 'busy', details: {} };
      const results = mutations.map(({ id }, index) => (index === 0 ? { id, status: 'retry', error } : { id, status: 'retry' }));
      return new Response(JSON.stringify({ data: { results, last_mutation_id: 0 } }), { headers: { 'retry-after': '1' } });
    },
  });
  const id = await known(mina);
  await mina.invoices.patch(id, { memo: 'waits' });
  await assert.rejects(mina.offline.sync(), { code: 'LOCK_TIMEOUT', retryAfter: 1 });
  assert.equal(await mina.offline.pending(), 1);
  await mina.offline.sync();
  await converged(mina);
});

/** Waits until something holds, woken by the app's news. */
async function until(offline, holds) {
  const late = AbortSignal.timeout(20_000);
  for (;;) {
    let stop;
    const news = new Promise((resolve, reject) => {
      stop = offline.subscribe(resolve);
      late.addEventListener('abort', () => reject(new Error('it did not come to hold')));
    });
    // Nobody waits for news where it holds already.
    news.catch(() => {});
    try {
      if (await holds()) return;
      await news;
    } finally {
      stop();
    }
  }
}

test('it keeps in step by itself: the stream wakes it, edits are sent, and it comes back', async () => {
  let online = true;
  const mina = await app({
    fetch: (url, init) => (online ? fetch(url, init) : Promise.reject(new TypeError('offline'))),
  });
  const id = await known(mina);
  await mina.offline.start({ poll: 600_000, retry: { first: 20, longest: 50 } });
  await theirs(id, { memo: 'woken by this' });
  await until(mina.offline, async () => (await mina.invoices.get(id)).version === 2);
  await mina.invoices.patch(id, { customer: 'by itself' }, { onConflict: 'merge' });
  await until(mina.offline, async () => (await mina.offline.pending()) === 0);
  assert.equal((await stored(id)).customer, 'by itself');

  online = false;
  let failed = 0;
  mina.offline.subscribe(({ type, online: is }) => (failed += type === 'status' && !is ? 1 : 0));
  await mina.invoices.patch(id, { customer: 'while offline' });
  await until(mina.offline, async () => failed > 1);
  assert.equal(await mina.offline.pending(), 1);
  online = true;
  await until(mina.offline, async () => (await mina.offline.pending()) === 0);
  assert.equal((await stored(id)).customer, 'while offline');
  await mina.offline.close();
});
