// The queue: edits that wait for the server, and what becomes of them. All of it within a transaction
// of the store, so that an edit and its number, or a result and its row, are kept together or not at all.

import { copy, equal, parse, stringify } from '../json.js';
import { recordKey } from './tables.js';
import { uuid } from './uuid.js';

/** Most edits that are sent at once, and about how many characters. The server takes 500 and 1 MiB. */
const MOST = 200;
const MOST_TEXT = 256 * 1024;

/** Who this client is to the server, and the number of its next edit. */
export async function identity(tx) {
  return (await tx.get('meta', 'client')) ?? newIdentity(tx);
}

function newIdentity(tx) {
  const client = { id: uuid(), next: 1 };
  tx.put('meta', 'client', client);
  return client;
}

/** The edits of one record that wait, in order. */
export async function waiting(tx, resource, record) {
  const queue = await tx.list('queue');
  return queue.filter((entry) => entry.resource === resource && entry.record === record);
}

/**
 * Adds an edit. It is based on the edit before it where one waits, else on the version that is known
 * here, or on `base`, the version that somebody decided on.
 */
export async function enqueue(tx, { op, resource, record, data, onConflict, base }) {
  const client = await identity(tx);
  const queue = await waiting(tx, resource, record);
  const before = queue.at(-1);
  const known = await tx.get('records', recordKey(resource, record));
  // What the user saw: it is what the edit is compared with where it is refused.
  const row = shown(known, queue);
  const seen = row === null ? null : stringify(row);
  const entry = { id: client.next, op, resource, record, data: data === undefined ? null : stringify(data), seen };
  if (onConflict && onConflict !== 'fail') entry.onConflict = onConflict;
  if (op === 'create' || base === 0) entry.baseVersion = 0;
  else if (before) entry.baseMutation = before.id;
  else entry.baseVersion = base ?? known?.version;
  tx.put('queue', entry.id, entry);
  tx.put('meta', 'client', { ...client, next: client.next + 1 });
  return entry;
}

/** The next push: the oldest edits, up to the number `through` where it is given; null where none waits. */
export async function nextPush(tx, through = Infinity) {
  const queue = await tx.list('queue');
  if (queue.length === 0) return null;
  const client = await identity(tx);
  let room = MOST_TEXT;
  const sent = queue.slice(0, MOST).filter((entry, index) => {
    room -= entry.data?.length ?? 0;
    return index === 0 || (room > 0 && entry.id <= through);
  });
  // A result may be let go once it is kept here and no edit that waits is based on it.
  const needed = queue.map(({ baseMutation = Infinity }) => baseMutation);
  const decided = Math.min(queue[0].id, ...needed) - 1;
  return { client_id: client.id, mutations: sent.map(mutation), ack_through: decided };
}

function mutation({ id, op, resource, record, baseVersion, baseMutation, onConflict, data, unsendable }) {
  // Its number is to be used up, and by nothing that could be done.
  if (unsendable) return { id, op: 'none', resource, record_id: '' };
  const made = { id, op, resource, record_id: record };
  if (baseMutation !== undefined) made.base_mutation = baseMutation;
  else if (baseVersion !== undefined) made.base_version = baseVersion;
  if (onConflict) made.on_conflict = onConflict;
  if (data !== null) made.data = parse(data);
  return made;
}

const HOLDS = ['applied', 'merged', 'noop'];

/**
 * Takes the results of a push: rows become what the server says, edits that hold leave the queue, and
 * refused ones become problems. A result whose edit is gone was taken before. Gives what happened.
 */
export async function takeResults(tx, clientId, results) {
  const happened = [];
  if ((await identity(tx)).id !== clientId) return happened;
  const versions = new Map();
  for (const result of results) {
    if (result.status === 'retry') break;
    const entry = await tx.get('queue', result.id);
    if (!entry) continue;
    if (entry.unsendable) {
      await keepProblem(tx, entry, { id: entry.id, status: 'rejected', error: parse(entry.unsendable) });
    } else if (HOLDS.includes(result.status)) {
      versions.set(entry.id, result.version);
      await keepRow(tx, entry, result.version, result.data);
    } else {
      await keepProblem(tx, entry, result);
    }
    tx.delete('queue', entry.id);
    happened.push({ status: result.status, resource: entry.resource, record: entry.record, id: entry.id });
  }
  if (versions.size > 0) await follow(tx, versions);
  return happened;
}

/** What edits that wait were based on has a version by now. It is sent only where this client starts over. */
async function follow(tx, versions) {
  for (const entry of await tx.list('queue')) {
    if (versions.has(entry.baseMutation)) tx.put('queue', entry.id, { ...entry, baseResult: versions.get(entry.baseMutation) });
  }
}

/** A row as the server told of it, unless a newer one is known. A deletion is a version, too. */
export async function keepRow(tx, { resource, record }, version, row, { removed = false } = {}) {
  const key = recordKey(resource, record);
  const known = await tx.get('records', key);
  const { generation = 0 } = (await tx.get('meta', 'feed')) ?? {};
  const same = known !== undefined && known.generation === generation;
  // What came back into sight may have kept its version.
  if (same && (known.version > version || (known.version === version && !known.removed))) return false;
  tx.put('records', key, { resource, record, version, row: row == null ? null : stringify(row), generation, ...(removed && { removed }) });
  return known === undefined || known.version !== version || known.removed === true;
}

async function keepProblem(tx, entry, result) {
  const key = recordKey(entry.resource, entry.record);
  const { resource, record } = entry;
  const before = await tx.get('problems', key);
  // What is blocked is kept with the edit that it was based on; of several refusals the last one shows the row as it stands.
  const known = before && result.status === 'blocked' ? before.result : stringify(result);
  const status = before && result.status === 'blocked' ? before.status : result.status;
  tx.put('problems', key, { resource, record, status, result: known, entries: [...(before?.entries ?? []), entry] });
  if (result.status !== 'conflict') return;
  const version = result.error.details?.current_version;
  if (version === undefined || version === null) return;
  const deleted = result.error.details.kind === 'update_delete' || result.error.code === 'RECORD_DELETED';
  await keepRow(tx, entry, version, deleted ? null : result.data);
}

/**
 * The server does not know this client, or knows another one under its name: what waits is numbered
 * anew, for a client that is new. Nothing of it was ever applied, so nothing is applied twice.
 */
export async function startOver(tx, clientId) {
  if ((await identity(tx)).id !== clientId) return;
  const queue = await tx.list('queue');
  const client = newIdentity(tx);
  const ids = new Map();
  for (const entry of queue) tx.delete('queue', entry.id);
  for (const entry of queue) {
    const { baseMutation, baseResult, ...rest } = entry;
    const renumbered = { ...rest, id: client.next };
    if (baseMutation !== undefined) {
      if (ids.has(baseMutation)) renumbered.baseMutation = ids.get(baseMutation);
      else renumbered.baseVersion = baseResult ?? (await tx.get('records', recordKey(entry.resource, entry.record)))?.version;
    }
    ids.set(entry.id, client.next);
    tx.put('queue', renumbered.id, renumbered);
    client.next += 1;
  }
  tx.put('meta', 'client', client);
}

/** A version that no record is at. */
const NEVER = 2_147_483_647;

/**
 * After a restore the server may count to a version that it had reached before, with another row. An edit
 * that is based on such a version must conflict, and only here can that be seen.
 */
export async function distrust(tx) {
  for (const entry of await tx.list('queue')) {
    if (!entry.baseVersion) continue;
    const known = await tx.get('records', recordKey(entry.resource, entry.record));
    if (known?.version !== entry.baseVersion || known.row === null || equal(parse(entry.seen), parse(known.row))) continue;
    tx.put('queue', entry.id, { ...entry, baseVersion: NEVER });
  }
}

/** An edit that the server does not even read (a text that is no Unicode, too much of it) is sent no more. */
export async function neverSend(tx, clientId, id, error) {
  const entry = await tx.get('queue', id);
  if (entry && (await identity(tx)).id === clientId) tx.put('queue', id, { ...entry, unsendable: stringify(error) });
}

/** Edits up to a number were decided, and nobody knows how: they are kept as problems. */
export async function giveUp(tx, clientId, through, error) {
  if ((await identity(tx)).id !== clientId) return [];
  const lost = (await tx.list('queue')).filter(({ id }) => id <= through);
  const results = lost.map(({ id }) => ({ id, status: 'rejected', error }));
  return takeResults(tx, clientId, results);
}

/** The row of a record with the edits that wait: what the user sees. Null where there is none. */
export function shown(known, queue) {
  let row = known?.row == null ? null : parse(known.row);
  for (const { op, data } of queue) {
    if (op === 'delete') row = null;
    else if (op === 'patch') row = row === null ? null : patched(row, parse(data));
    else row = parse(data);
  }
  return row;
}

/** A row with a patch on it, as the server does it (RFC 7396; a null of a field stays a null). */
export function patched(row, changes) {
  const made = copy(row);
  for (const [field, value] of Object.entries(changes)) put(made, field, merged(row[field], value));
  return made;
}

function merged(value, change) {
  if (!isObject(change)) return copy(change);
  const made = isObject(value) ? copy(value) : {};
  for (const [name, member] of Object.entries(change)) {
    if (member === null) delete made[name];
    else put(made, name, merged(made[name], member));
  }
  return made;
}

function isObject(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value) && Object.getPrototypeOf(value) === Object.prototype;
}

function put(object, name, value) {
  Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
}
