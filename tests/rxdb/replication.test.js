// The real RxDB against the real server.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, afterEach, before, test } from 'node:test';

import { startServer } from '../../clients/js/test/server.js';
import { startApp } from './client.js';

let server;
const apps = [];
before(async () => {
  server = await startServer();
});
after(() => server?.stop());
afterEach(async () => {
  await Promise.all(apps.splice(0).map((app) => app.stop()));
});

async function app(options) {
  const started = await startApp(server.base, options);
  apps.push(started);
  await started.replication.awaitInitialReplication();
  return started;
}

async function api(method, path, { body, headers } = {}) {
  const response = await fetch(`${server.base}/api/v1${path}`, {
    method,
    headers: { 'content-type': 'application/json', 'x-actor': 'tom', ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? null : JSON.parse(text) };
}

async function done(...request) {
  const { status, body } = await api(...request);
  assert.ok(status < 300, JSON.stringify(body));
  return body?.data;
}

const patch = (id, changes) => done('PATCH', `/invoices/${id}`, { body: changes });
const stored = (id) => done('GET', `/invoices/${id}`);
const remove = (id) => done('DELETE', `/invoices/${id}`);
const history = async (id) => (await done('GET', `/invoices/${id}/history`)).map(({ op }) => op).reverse();

function invoice(values = {}) {
  const id = randomUUID();
  return { id, number: id, customer: 'Harbour Bakery', amount: 1000, ...values };
}

/** An invoice that the server has, and all these apps. */
async function known(all, values) {
  const row = invoice(values);
  await done('PUT', `/invoices/${row.id}`, { body: row, headers: { 'if-none-match': '*' } });
  for (const one of all) await one.inSync();
  return row.id;
}

const document = (one, id) => one.invoices.findOne(id).exec();
async function edit(one, id, changes) {
  await (await document(one, id)).incrementalPatch(changes);
}

/** Both apps and the server hold the same. */
async function converge(...all) {
  // What one pushes in a round, the other pulls in the next.
  for (let round = 0; round < 3; round += 1) for (const one of all) await one.inSync();
  const rows = await done('GET', '/invoices?limit=1000&order=id');
  for (const one of all) {
    const documents = await one.invoices.find({ sort: [{ id: 'asc' }] }).exec();
    assert.deepEqual(documents.map((found) => found.toJSON()), rows);
  }
}

function offline(...all) {
  for (const { network } of all) network.goOffline();
}

function online(...all) {
  for (const { network } of all) network.goOnline();
}

test('two clients that were offline converge with the server', async () => {
  const mina = await app();
  const tom = await app();
  const different = await known([mina, tom]);
  const same = await known([mina, tom]);
  const gone = await known([mina, tom]);
  const clash = await known([mina, tom]);
  offline(mina, tom);
  await edit(mina, different, { memo: 'mina' });
  await edit(tom, different, { due_on: '2026-12-24' });
  await edit(mina, same, { memo: 'mina' });
  await edit(tom, same, { memo: 'tom' });
  await (await document(mina, gone)).remove();
  await (await document(mina, clash)).remove();
  await edit(tom, clash, { memo: 'still needed' });
  const made = [invoice(), invoice()];
  await mina.invoices.insert(made[0]);
  await tom.invoices.insert(made[1]);
  online(mina);
  await mina.inSync();
  online(tom);
  await converge(mina, tom);

  assert.deepEqual(mina.conflicts, [], 'nobody was ahead of the first');
  const met = new Map(tom.conflicts.map((conflict) => [conflict.realMasterState.id, conflict]));
  assert.deepEqual([...met.keys()].sort(), [different, same, clash].sort());
  assert.equal(met.get(same).realMasterState.memo, 'mina');
  assert.equal(met.get(same).realMasterState.version, 2);
  assert.equal(met.get(same).newDocumentState.memo, 'tom');
  assert.equal(met.get(clash).realMasterState._deleted, true);
  assert.equal(met.get(clash).realMasterState.amount, 1000, 'the last row');
  assert.equal((await stored(same)).memo, 'mina');
  assert.equal((await api('GET', `/invoices/${gone}`)).status, 410);
  assert.equal((await api('GET', `/invoices/${clash}`)).status, 410);
  for (const { id } of made) assert.equal((await stored(id)).version, 1);
  assert.deepEqual(mina.errors.concat(tom.errors).filter(({ code }) => !['RC_PULL', 'RC_PUSH'].includes(code)), []);
});

test('a handler that keeps both changes is heard', async () => {
  const resolve = ({ newDocumentState, realMasterState }) => ({ ...realMasterState, _deleted: false, memo: newDocumentState.memo });
  const mina = await app({ resolve });
  const id = await known([mina]);
  const deleted = await known([mina]);
  offline(mina);
  await edit(mina, id, { memo: 'mine' });
  await edit(mina, deleted, { memo: 'back again' });
  await patch(id, { amount: 5 });
  await remove(deleted);
  online(mina);
  await converge(mina);
  assert.equal(mina.conflicts.length, 2);
  const both = await stored(id);
  assert.deepEqual([both.memo, both.amount, both.version], ['mine', 5, 3]);
  assert.deepEqual(await history(deleted), ['create', 'delete', 'create']);
  assert.equal((await stored(deleted)).memo, 'back again');
});

test('a client is never in conflict with itself', async () => {
  const mina = await app();
  const id = await known([mina]);
  const row = invoice();
  await mina.invoices.insert(row);
  // Pushed one after the other, faster than anything is pulled.
  for (let n = 1; n <= 12; n += 1) {
    await edit(mina, n % 2 ? id : row.id, { memo: `edit ${n}` });
    await mina.replication.awaitInSync();
  }
  const before = (await history(id)).length;
  await Promise.all([1, 2, 3, 4, 5].map((n) => edit(mina, id, { amount: n })));
  await (await document(mina, row.id)).remove();
  await converge(mina);
  assert.deepEqual(mina.conflicts, []);
  assert.ok(before > 2);
  assert.equal((await stored(id)).memo, 'edit 11');
  assert.equal((await api('GET', `/invoices/${row.id}`)).status, 410);
});

test('a push whose answer got lost is no conflict, and is not done twice', async () => {
  const mina = await app();
  const [id, other] = [await known([mina]), await known([mina])];
  const row = invoice();
  mina.network.losing = 3;
  await edit(mina, id, { memo: 'once' });
  await (await document(mina, other)).remove();
  await mina.invoices.insert(row);
  await converge(mina);
  assert.equal(mina.network.losing, 0);
  assert.deepEqual(mina.conflicts, []);
  assert.deepEqual(await history(id), ['create', 'update']);
  assert.deepEqual(await history(other), ['create', 'delete']);
  assert.deepEqual(await history(row.id), ['create']);
});

test('what the stream tells arrives without a pull', async () => {
  const mina = await app();
  const id = await known([mina]);
  const before = mina.network.requests;
  const arrived = new Promise((resolve) => {
    mina.invoices.findOne(id).$.subscribe((found) => found?.memo === 'from the stream' && resolve());
  });
  await patch(id, { memo: 'from the stream' });
  await arrived;
  assert.equal(mina.network.requests, before);
  await remove(id);
  await new Promise((resolve) => mina.invoices.findOne(id).$.subscribe((found) => found === null && resolve()));
  await converge(mina);
});

test('pages are filled, first copy and changes alike', async () => {
  const mina = await app({ batchSize: 3 });
  const before = (await mina.invoices.find().exec()).length;
  const ids = [];
  for (let n = 0; n < 11; n += 1) ids.push(await known([]));
  await remove(ids[4]);
  await converge(mina);
  assert.equal((await mina.invoices.find().exec()).length, before + 10);
  const late = await app({ batchSize: 3 });
  await converge(mina, late);
});

test('what the table refuses is taken back, and the rest goes on', async () => {
  const mina = await app();
  const id = await known([mina]);
  offline(mina);
  await edit(mina, id, { amount: -5 });
  const good = invoice();
  const bad = invoice({ customer: '' });
  await mina.invoices.bulkInsert([good, bad]);
  online(mina);
  await converge(mina);
  assert.deepEqual(mina.conflicts.map(({ realMasterState }) => realMasterState.id).sort(), [id, bad.id].sort());
  assert.equal((await stored(good.id)).version, 1);
  assert.equal((await stored(id)).amount, 1000);
  assert.equal((await api('GET', `/invoices/${bad.id}`)).status, 404);
});

test('where it is wished, the server combines changes of different fields', async () => {
  const mina = await app({ query: '&on_conflict=merge' });
  const id = await known([mina]);
  offline(mina);
  await edit(mina, id, { memo: 'mine' });
  await patch(id, { amount: 7 });
  online(mina);
  await converge(mina);
  const row = await stored(id);
  assert.deepEqual([row.memo, row.amount, row.version], ['mine', 7, 3]);
  assert.deepEqual((await document(mina, id)).toJSON(), row);
});
