// The whole of it: a store, what waits in it, and the loop that talks to the server.

import { CounterfoilError, Wire, queryString } from '../wire.js';
import { enqueue, giveUp, identity, neverSend, nextPush, shown, startOver, takeResults, waiting } from './edits.js';
import { beginCopy, nextPage, takePage } from './feed.js';
import { indexedDBStore } from './indexeddb.js';
import { alone } from './lock.js';
import { memoryStore } from './memory.js';
import { Problem } from './problem.js';
import { Rhythm } from './rhythm.js';
import { listen } from './stream.js';
import { recordId, recordKey, resourcePrefix } from './tables.js';
import { uuid } from './uuid.js';

/** What the server answers to a push that it cannot read. */
const UNREADABLE = ['INVALID_JSON', 'DUPLICATE_KEY', 'TOO_DEEP', 'BODY_TOO_LARGE', 'INVALID_VALUE', 'MISSING_FIELD'];

/** Most changes of a page. */
const PAGE = 500;

export class Offline {
  #wire;
  #store;
  #name;
  #resources;
  #listeners = new Set();
  #channel = null;
  #rhythm = null;
  #page;

  /** Opens what is kept under a name, or begins it. */
  static async open(options) {
    const offline = new Offline(options);
    await offline.#store.open();
    await offline.#store.write((tx) => identity(tx));
    return offline;
  }

  constructor({ base, fetch, headers, actor, name = 'counterfoil', resources, store, pageSize = PAGE }) {
    this.#wire = new Wire({ base, fetch, headers, actor });
    this.#name = name;
    this.#resources = named(resources);
    this.#store = store ?? (globalThis.indexedDB ? indexedDBStore(name) : memoryStore());
    this.#page = pageSize;
    if (globalThis.BroadcastChannel && globalThis.document) {
      this.#channel = new BroadcastChannel(`counterfoil:${name}`);
      this.#channel.onmessage = ({ data }) => this.#tell(data, { here: true });
    }
  }

  /** The rows of a resource, as they are known here. */
  resource(name) {
    const options = this.#resources.get(name);
    if (!options) throw new TypeError(`"${name}" is none of the resources that were opened`);
    return new OfflineResource({
      name,
      ...options,
      read: (work) => this.#store.read(work),
      edit: (edit) => this.#edit({ resource: name, ...edit }),
    });
  }

  /** How many edits wait for the server. */
  async pending() {
    return (await this.#store.read((tx) => tx.list('queue'))).length;
  }

  /** The edits that were refused and wait for a decision. */
  async problems() {
    const kept = await this.#store.read((tx) => tx.list('problems'));
    return kept.map((one) => this.#problem(one));
  }

  /** Tells of what changes: `{ type: 'rows' | 'queue' | 'problem' | 'status', … }`. Gives the function that ends it. */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Reads what is new and sends what waits, once. Throws where the server cannot be reached or refuses;
   * what was done until then is kept. It reads first, because only that tells of a database that was
   * restored, in which versions count for something else.
   */
  sync({ signal } = {}) {
    return alone(`counterfoil:${this.#name}`, async () => {
      const pulled = await this.#pull(signal);
      const pushed = await this.#push(signal);
      return { pulled, pushed };
    });
  }

  /** Keeps in step with the server until `stop` or `close`: at once, at every edit, and when something is new. */
  start({ poll, stream = true, retry } = {}) {
    this.#rhythm ??= new Rhythm({
      poll,
      retry,
      sync: (signal) => this.sync({ signal }),
      listen: stream ? (options) => this.#listen(options) : null,
      tell: (status) => this.#tell({ type: 'status', ...status }, { here: true }),
    });
    return this.#rhythm.start();
  }

  async stop() {
    const rhythm = this.#rhythm;
    this.#rhythm = null;
    await rhythm?.stop();
  }

  async close() {
    await this.stop();
    this.#channel?.close();
    await this.#store.close();
  }

  // --- edits -------------------------------------------------------------------------------------

  async #edit(edit) {
    const entry = await this.#store.write((tx) => enqueue(tx, edit));
    this.#edited(entry);
    return entry;
  }

  #edited({ resource, record }) {
    this.#tell({ type: 'queue' });
    this.#tell({ type: 'rows', resource, ids: [record] });
    this.#rhythm?.wake({ hurry: false });
  }

  #problem(kept) {
    const { versionField = 'version' } = this.#resources.get(kept.resource) ?? {};
    return new Problem({ kept, versionField, act: (...decision) => this.#decide(...decision) });
  }

  /** Ends a problem with an edit, or without one. What was refused meanwhile is not passed over. */
  async #decide(kept, edit) {
    const { resource, record } = kept;
    const key = recordKey(resource, record);
    await this.#store.write(async (tx) => {
      const now = await tx.get('problems', key);
      if (now?.entries.at(-1).id !== kept.entries.at(-1).id) {
        throw new TypeError('The problem was decided meanwhile, or more came to it: read problems() again');
      }
      tx.delete('problems', key);
      if (edit) await enqueue(tx, { resource, record, ...edit });
    });
    this.#edited({ resource, record });
    this.#tell({ type: 'problem', resource, id: record });
  }

  // --- up ----------------------------------------------------------------------------------------

  async #push(signal) {
    let pushed = 0;
    let through;
    for (;;) {
      const body = await this.#store.read((tx) => nextPush(tx, through));
      through = undefined;
      if (!body) return pushed;
      const answer = await this.#wire.send('POST', '/sync/push', { body, signal });
      if (!answer.ok) {
        through = await this.#refused(body, answer);
        continue;
      }
      const { results } = answer.data;
      const happened = await this.#store.write((tx) => takeResults(tx, body.client_id, results));
      pushed += happened.length;
      this.#happened(happened);
      const waits = results.find(({ status }) => status === 'retry');
      if (waits) throw later(waits, answer);
    }
  }

  /** What a push that was refused as a whole means. Gives up to which edit to send next, where that is not all. */
  async #refused({ client_id: clientId, mutations }, answer) {
    const [first] = mutations;
    const { expected, id, last_mutation_id: last } = answer.details;
    switch (answer.code) {
      case 'MUTATION_OUT_OF_ORDER':
        // Another tab was faster where it expects a later one; else the server was set back.
        if (!(await this.#isNext(first.id)) || expected > first.id) return undefined;
        await this.#store.write((tx) => startOver(tx, clientId));
        return undefined;
      case 'MUTATION_ID_REUSED':
        if (!(await this.#isNext(first.id))) return undefined;
        // What stands ahead of it has its results.
        if (id > first.id) return id - 1;
        await this.#store.write((tx) => startOver(tx, clientId));
        return undefined;
      case 'MUTATION_EXPIRED': {
        if (!(await this.#isNext(first.id))) return undefined;
        const error = answer.body.error;
        this.#happened(await this.#store.write((tx) => giveUp(tx, clientId, Math.min(id ?? last, last), error)));
        return undefined;
      }
      default:
        if (!UNREADABLE.includes(answer.code) || !(await this.#isNext(first.id))) throw answer.error();
        // Which one it is, shows when they are sent one by one.
        if (mutations.length > 1) return first.id;
        if (mutations[0].op === 'none') throw answer.error();
        await this.#store.write((tx) => neverSend(tx, clientId, first.id, answer.body.error));
        return undefined;
    }
  }

  /** Whether an edit is still the oldest that waits: another tab may have sent it. */
  async #isNext(id) {
    return (await this.#store.read((tx) => tx.list('queue')))[0]?.id === id;
  }

  #happened(happened) {
    if (happened.length === 0) return;
    this.#tell({ type: 'queue' });
    this.#rows(happened);
    for (const { status, resource, record } of happened) {
      if (['conflict', 'rejected', 'blocked'].includes(status)) this.#tell({ type: 'problem', status, resource, id: record });
    }
  }

  // --- down --------------------------------------------------------------------------------------

  async #pull(signal) {
    const resources = [...this.#resources.keys()].sort().join(',');
    let pulled = 0;
    for (let begun = 0; ; ) {
      const asked = await this.#store.read((tx) => nextPage(tx, resources));
      if (asked.kind === 'begin') {
        await this.#store.write((tx) => beginCopy(tx, resources));
        continue;
      }
      const { kind, ...place } = asked;
      const answer = await this.#wire.send('GET', `/sync/${kind}${queryString({ ...place, resources, limit: this.#page })}`, { signal });
      if (!answer.ok) {
        // The place is gone, or of another server: a first copy again, and the queue stays as it is.
        if (['CURSOR_EXPIRED', 'INVALID_CURSOR'].includes(answer.code) && (begun += 1) < 4) {
          await this.#store.write((tx) => beginCopy(tx, resources));
          continue;
        }
        throw answer.error();
      }
      const changed = await this.#store.write((tx) => takePage(tx, asked, answer.data));
      pulled += answer.data.changes.length;
      this.#rows(changed);
      if (kind === 'pull' && !answer.data.has_more) return pulled;
    }
  }

  async #listen({ signal, wake, opened }) {
    const resources = [...this.#resources.keys()].sort().join(',');
    const asked = await this.#store.read((tx) => nextPage(tx, resources));
    if (asked.kind !== 'pull') throw new CounterfoilError({ status: 0, code: 'NO_CURSOR', message: 'Nothing was read yet' });
    await listen(this.#wire, `/sync/stream${queryString({ cursor: asked.cursor, resources })}`, { signal, wake, opened });
  }

  #rows(places) {
    const byResource = new Map();
    for (const { resource, record } of places) byResource.set(resource, (byResource.get(resource) ?? new Set()).add(record));
    for (const [resource, ids] of byResource) this.#tell({ type: 'rows', resource, ids: [...ids] });
  }

  #tell(news, { here = false } = {}) {
    for (const listener of this.#listeners) listener(news);
    if (!here) this.#channel?.postMessage(news);
  }
}

/** A mutation that the database could not do for now. */
function later(line, answer) {
  const { code = 'RETRY', message = 'The server could not do it for now', details } = line.error ?? {};
  const retryAfter = Number(answer.headers.get('retry-after')) || null;
  return new CounterfoilError({ status: 503, code, message, details, retryAfter });
}

function named(resources) {
  const entries = Array.isArray(resources) ? resources.map((name) => [name, {}]) : Object.entries(resources ?? {});
  if (entries.length === 0) throw new TypeError('resources is missing: the names of what is kept here');
  return new Map(entries.map(([name, { key = 'id', versionField = 'version' } = {}]) => [name, { keyFields: [key].flat(), versionField }]));
}

/** The rows of one resource: what the server told of, with the edits on it that wait. */
export class OfflineResource {
  #link;

  constructor(link) {
    this.#link = link;
  }

  get name() {
    return this.#link.name;
  }

  /** A row as it is known here; null where there is none. */
  get(id) {
    const record = recordId(id);
    return this.#link.read(async (tx) => {
      const known = await tx.get('records', recordKey(this.name, record));
      const problem = await tx.get('problems', recordKey(this.name, record));
      return seen(record, known, await waiting(tx, this.name, record), problem);
    });
  }

  /** All rows. */
  all() {
    return this.#link.read(async (tx) => {
      const known = new Map((await tx.list('records', resourcePrefix(this.name))).map((one) => [one.record, one]));
      const queued = new Map();
      for (const entry of await tx.list('queue')) {
        if (entry.resource === this.name) queued.set(entry.record, [...(queued.get(entry.record) ?? []), entry]);
      }
      const problems = new Map((await tx.list('problems', resourcePrefix(this.name))).map((one) => [one.record, one]));
      const ids = [...new Set([...known.keys(), ...queued.keys()])];
      return ids.map((id) => seen(id, known.get(id), queued.get(id) ?? [], problems.get(id))).filter((row) => row !== null);
    });
  }

  /** Creates a row; an id is made where the row has none. Gives the id. */
  async create(data, { id } = {}) {
    const { keyFields } = this.#link;
    const row = { ...data };
    if (id !== undefined) keyFields.forEach((field, part) => (row[field] ??= [id].flat()[part]));
    if (keyFields.length === 1) row[keyFields[0]] ??= uuid();
    const missing = keyFields.find((field) => row[field] === undefined);
    if (missing !== undefined) throw new TypeError(`The row has no "${missing}", which is a part of its key`);
    const made = keyFields.length === 1 ? row[keyFields[0]] : keyFields.map((field) => row[field]);
    if (await this.get(made)) throw new TypeError(`${this.name} ${recordId(made)} is there already`);
    await this.#edit('create', made, { data: row });
    return made;
  }

  /** Changes fields of a row; null empties one. */
  async patch(id, changes, { onConflict } = {}) {
    await this.#demand(id);
    await this.#edit('patch', id, { data: changes, onConflict });
  }

  /** Replaces a row. */
  async put(id, data, { onConflict } = {}) {
    await this.#demand(id);
    await this.#edit('put', id, { data, onConflict });
  }

  /** Deletes a row. */
  async remove(id) {
    await this.#demand(id);
    await this.#edit('delete', id, {});
  }

  async #demand(id) {
    if (!(await this.get(id))) throw new TypeError(`${this.name} ${recordId(id)} is not known here`);
  }

  #edit(op, id, edit) {
    const { [this.#link.versionField]: _version, ...data } = edit.data ?? {};
    return this.#link.edit({ ...edit, op, record: recordId(id), data: edit.data && data });
  }
}

function seen(id, known, queue, problem) {
  const data = shown(known, queue);
  if (data === null) return null;
  return { id, data, version: known?.version ?? null, pending: queue.length, problem: problem?.status ?? null };
}
