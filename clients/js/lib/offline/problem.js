// An edit that the server refused, kept until somebody decides: with the row as it stands, what was
// typed, and the way on.

import { Conflict } from '../conflict.js';
import { copy, equal, frozen, parse } from '../json.js';
import { patched } from './edits.js';

export class Problem {
  #kept;
  #act;

  /** `kept` is what the store holds; `act` ends the problem, with an edit or without. */
  constructor({ kept, versionField, act }) {
    this.#kept = kept;
    this.#act = act;
    const result = parse(kept.result);
    const [first] = kept.entries;
    this.resource = kept.resource;
    this.id = kept.record;
    /** `conflict`: somebody was faster; `rejected`: it can never hold; `blocked`: what it was based on did not hold. */
    this.status = kept.status;
    this.operation = kept.entries.at(-1).op === 'delete' ? 'remove' : first.op === 'create' ? 'create' : 'save';
    this.error = frozen(result.error ?? { code: 'UNKNOWN', message: 'The edit was refused', details: {} });
    this.base = first.seen === null ? null : frozen(parse(first.seen));
    this.yours = frozen(typed(kept.entries, this.base, versionField));
    this.conflict = kept.status === 'conflict' ? this.#conflict(result, first, versionField) : null;
    Object.freeze(this);
  }

  /** Gives up what was typed; the row stays as the server has it. */
  discard() {
    return this.#act(this.#kept, null);
  }

  /**
   * Queues an edit that carries the decisions, based on the row that they were made over: `'mine'`,
   * `'theirs'` or `{ value }` for each field that clashes. For a rejected edit, `choices` are the
   * corrected fields, as values.
   */
  resolve(choices = {}) {
    if (this.operation === 'remove') throw new TypeError('Decide with remove() or discard()');
    if (this.conflict) return this.conflict.resolve(choices);
    const data = patched(this.yours, choices);
    if (this.operation === 'create') return this.#act(this.#kept, { op: 'create', data });
    return this.#act(this.#kept, { op: 'patch', data });
  }

  /** Queues the deletion of the row as it stands now. */
  remove() {
    const base = this.conflict?.deleted ? undefined : this.conflict?.currentVersion;
    return this.#act(this.#kept, this.conflict?.deleted ? null : { op: 'delete', base });
  }

  /** Queues the same edit once more, to be combined with theirs by the server; only where no field clashes. */
  saveMerged() {
    if (!this.conflict) throw new TypeError('There is nothing to combine with');
    return this.conflict.saveMerged();
  }

  #conflict(result, first, versionField) {
    const { error } = result;
    const status = error.code === 'RECORD_DELETED' || error.details?.kind === 'update_delete' ? 410 : 409;
    const answer = { status, body: { error }, details: error.details ?? {}, data: result.data ?? null, version: null };
    const changes = first.op === 'create' ? this.yours : differing(this.base ?? {}, this.yours);
    return new Conflict({
      answer,
      operation: this.operation === 'remove' ? 'remove' : 'save',
      base: this.base ?? {},
      baseVersion: first.baseVersion ?? null,
      versionField,
      sent: changes,
      changes,
      previous: null,
      next: (conflict, data) => this.#act(this.#kept, decided(conflict, data, versionField)),
      merge: () => this.#act(this.#kept, { op: 'patch', data: changes, base: first.baseVersion, onConflict: 'merge' }),
    });
  }
}

/** All that was typed, edit upon edit. */
function typed(entries, base, versionField) {
  let fields = {};
  for (const { op, data } of entries) {
    if (op === 'patch') fields = patched(fields, parse(data));
    else if (op !== 'delete') fields = differing(base ?? {}, parse(data));
  }
  delete fields[versionField];
  return fields;
}

function differing(row, fields) {
  return Object.fromEntries(Object.entries(fields).filter(([field, value]) => !equal(row[field], value)));
}

/** The edit that makes the decided row of the current one. */
function decided({ current, currentVersion, deleted }, data, versionField) {
  const { [versionField]: _version, ...row } = copy(data);
  if (deleted) return { op: 'put', data: row, base: 0 };
  const changes = differing(current, row);
  return Object.keys(changes).length === 0 ? null : { op: 'patch', data: changes, base: currentVersion };
}
