// A record as it was read, and the copy of it that is edited.

import { Conflict } from './conflict.js';
import { copy, equal, frozen } from './json.js';
import { queryString } from './wire.js';

export class VersionedRecord {
  #link;
  #original;
  #partial;
  #resolves;
  /** Ends with the last write under way, if there is one: writes of one record follow each other. */
  #busy = null;

  constructor(link, { id, row, version, partial = false, exists = true, data, resolves = null }) {
    this.#link = link;
    this.#original = frozen(row);
    this.#partial = partial;
    this.#resolves = resolves;
    this.id = id;
    this.version = version ?? row[link.versionField] ?? null;
    this.exists = exists;
    this.data = copy(data ?? row);
  }

  /** The tag that the next write names. */
  get etag() {
    return this.exists ? `"${this.version}"` : null;
  }

  /** The row as it was read, or as the last write left it; frozen. */
  get original() {
    return this.#original;
  }

  /** What was edited: field by field, the new values. */
  changes() {
    const changed = {};
    for (const [field, value] of Object.entries(this.data)) {
      if (field === this.#link.versionField || value === undefined) continue;
      if (!equal(value, this.#original[field])) changed[field] = copy(value);
    }
    return changed;
  }

  get changed() {
    return Object.keys(this.changes()).length > 0;
  }

  /** Takes the edits back. */
  discard() {
    this.data = copy(this.#original);
  }

  /**
   * Saves what was edited, if nobody saved meanwhile. A conflict is a result, not an exception, and
   * what was typed stays. Nothing is ever sent again by itself.
   */
  save({ onConflict = 'fail', method = 'PATCH', signal } = {}) {
    return this.#inTurn(() => (this.exists ? this.#save({ onConflict, method, signal }) : this.#recreate({ signal })));
  }

  /** What `save` would be answered, without writing: the conflict, or null where there is none. */
  compare({ signal } = {}) {
    return this.#inTurn(async () => {
      const result = this.exists ? await this.#save({ dryRun: true, signal }) : { ok: true };
      return result.ok ? null : result.conflict;
    });
  }

  /** Deletes the record, if nobody saved meanwhile. Saving it afterwards brings it back. */
  remove({ signal } = {}) {
    return this.#inTurn(async () => {
      if (!this.exists) return { ok: true, outcome: 'already-removed', record: this };
      const changes = this.changes();
      const answer = await this.#send('DELETE', '', { headers: this.#guard(), signal });
      if (answer.ok || answer.code === 'RECORD_DELETED') {
        this.exists = false;
        return { ok: true, outcome: answer.ok ? 'removed' : 'already-removed', record: this };
      }
      return this.#refused(answer, 'remove', changes);
    });
  }

  /** Makes an earlier version the newest, as a conditional write like any other. */
  restore(version, { signal } = {}) {
    return this.#inTurn(async () => {
      const past = await this.#send('GET', queryString({ version }), { signal });
      if (!past.ok) throw past.error();
      const row = past.data;
      const changes = {};
      for (const [field, value] of Object.entries(row)) {
        if (field !== this.#link.versionField && !equal(value, this.#original[field])) changes[field] = value;
      }
      const sent = copy(this.#original);
      const headers = this.exists ? this.#guard() : { 'if-none-match': '*' };
      const answer = await this.#send('PUT', '', { headers, body: row, signal });
      return answer.ok ? this.#accepted(answer, sent, 'restored') : this.#refused(answer, 'restore', changes);
    });
  }

  /** Raises a number by one statement, whatever version the record is at. */
  increment(field, by = 1, { signal } = {}) {
    return this.#inTurn(async () => {
      const fresh = await this.#link.resource.increment(this.id, field, by, { signal });
      // Where others wrote in between, this record stays at what it was read as, so that its next
      // save is told of them. The answer is the record as it stands.
      const adopted = this.#adopt(fresh.original, fresh.version, copy(this.#original));
      return { ok: true, outcome: 'incremented', record: adopted ? this : fresh };
    });
  }

  /** The record as it stands now, as a record of its own; this one keeps what was typed. */
  latest({ signal } = {}) {
    return this.#link.resource.read(this.id, { signal });
  }

  /** The versions of this record, newest first: an async iterable. */
  history(options) {
    return this.#link.resource.history(this.id, options);
  }

  /** Whether somebody else saved or deleted it: null, or `{ deleted, version }`. */
  async peek({ signal } = {}) {
    const headers = this.exists ? { 'if-none-match': this.etag } : {};
    const answer = await this.#send('HEAD', '', { headers, signal });
    if (answer.status === 304) return null;
    if (answer.status === 410) return { deleted: true, version: null };
    if (!answer.ok) throw answer.error();
    return { deleted: false, version: answer.version };
  }

  /** Tells when somebody else saves or deletes the record; gives the function that ends it. */
  watch(callback, { source = this.#link.source, signal } = {}) {
    let told = null;
    const stop = source.subscribe(this, async ({ deleted, version }) => {
      // A write of our own that is under way is no news once it is answered.
      await this.#busy;
      const news = deleted ? this.exists : version > this.version || !this.exists;
      const what = deleted ? 'deleted' : version;
      if (!news || what === told) return;
      told = what;
      callback({ record: this, deleted, version });
    });
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    return stop;
  }

  // --- writing -----------------------------------------------------------------------------------

  /** Begins at once where nothing is under way, so that a save takes what was typed until its call. */
  #inTurn(write) {
    const turn = this.#busy ? this.#busy.then(write) : write();
    const ended = turn
      .then(() => {}, () => {})
      .then(() => {
        if (this.#busy === ended) this.#busy = null;
      });
    this.#busy = ended;
    return turn;
  }

  #send(method, rest, options) {
    return this.#link.wire.send(method, this.#link.resource.path(this.id) + rest, options);
  }

  #guard() {
    return { 'if-match': this.etag };
  }

  async #save({ onConflict = 'fail', method = 'PATCH', dryRun, signal }) {
    const changes = this.changes();
    if (Object.keys(changes).length === 0) return { ok: true, outcome: 'unchanged', record: this };
    if (method === 'PUT' && this.#partial) {
      throw new TypeError('A record that was read with select cannot be replaced; save it with PATCH');
    }
    const sent = copy(this.data);
    const query = queryString({
      on_conflict: onConflict === 'fail' ? undefined : onConflict,
      dry_run: dryRun,
    });
    const body = method === 'PUT' ? sent : changes;
    const answer = await this.#send(method, query, { headers: this.#guard(), body, signal });
    if (!answer.ok) return this.#refused(answer, 'save', changes);
    if (dryRun) return { ok: true };
    return this.#accepted(answer, sent, 'saved');
  }

  async #recreate({ signal }) {
    const changes = this.changes();
    const sent = copy(this.data);
    const answer = await this.#send('PUT', '', { headers: { 'if-none-match': '*' }, body: sent, signal });
    return answer.ok ? this.#accepted(answer, sent, 'created') : this.#refused(answer, 'save', changes);
  }

  #accepted(answer, sent, outcome) {
    this.#adopt(answer.data, answer.version, sent);
    const result = { ok: true, outcome: answer.headers.get('counterfoil-result') ?? outcome, record: this };
    if (answer.body.merged) result.merged = answer.body.merged;
    return result;
  }

  /**
   * Goes on from the row that a write was answered with. What was typed while the write was under
   * way stays; but where others wrote in between too, going on would put what was typed over theirs
   * unseen, so the record stays where it was, and its next save is the conflict.
   */
  #adopt(row, version, sent) {
    const late = Object.entries(this.data).filter(
      ([field, value]) => field !== this.#link.versionField && !equal(value, sent[field]),
    );
    if (late.length > 0 && this.exists && version !== this.version + 1) return false;
    const kept = this.#partial ? narrowed(row, this.#original) : row;
    this.#original = frozen(kept);
    this.#resolves = null;
    this.version = version;
    this.exists = true;
    this.data = { ...copy(kept), ...copy(Object.fromEntries(late)) };
    return true;
  }

  #refused(answer, operation, sent) {
    const refusals = ['WRITE_CONFLICT', 'RECORD_DELETED', 'PRECONDITION_FAILED'];
    if (!refusals.includes(answer.code)) throw answer.error();
    const link = this.#link;
    const id = this.id;
    // What was typed while the write was under way belongs to what is to be decided.
    const typed = { ...Object.fromEntries(Object.keys(sent).map((field) => [field, this.data[field] ?? null])), ...this.changes() };
    const conflict = new Conflict({
      answer,
      operation,
      sent,
      changes: operation === 'save' ? typed : sent,
      base: this.#original,
      versionField: link.versionField,
      baseVersion: this.version,
      previous: this.#resolves,
      next: (resolves, data) =>
        new VersionedRecord(link, {
          id,
          row: resolves.current,
          version: resolves.currentVersion,
          exists: !resolves.deleted,
          data,
          resolves,
        }),
      merge: (options = {}) => this.save({ ...options, method: 'PATCH', onConflict: 'merge' }),
    });
    return { ok: false, conflict };
  }
}

/** The fields of a row that another one has. */
function narrowed(row, like) {
  return Object.fromEntries(Object.entries(row).filter(([field]) => Object.hasOwn(like, field)));
}

/** Creates a record under an id of the caller's. */
export function create(link, id, data, options) {
  return new VersionedRecord(link, { id, row: {}, version: null, exists: false, data }).save(options);
}
