// A refused write as data: who changed what meanwhile, what was typed, and the way on.

import { alike, copy, equal, frozen } from './json.js';

/** `resolve` was called while a clash was left without a decision. */
export class UndecidedError extends Error {
  name = 'UndecidedError';

  constructor(fields) {
    super(`These fields need a decision: ${fields.join(', ')}`);
    this.fields = fields;
  }
}

export class Conflict {
  #next;
  #merge;

  /**
   * `base` is the row that was read, `sent` what was to be written over it, `changes` the same with
   * what was typed since; `next` makes the record that carries the decisions, `merge` asks the
   * server to combine both.
   */
  constructor({ answer, operation, base, baseVersion, versionField, sent, changes, previous, next, merge }) {
    const { details } = answer;
    this.#next = next;
    this.#merge = merge;
    this.operation = operation;
    this.message = answer.body?.error?.message ?? '';
    this.requestId = answer.body?.error?.request_id ?? null;
    this.deleted = answer.status === 410 || answer.data === null;
    this.kind = details.kind ?? (this.deleted ? 'update_delete' : 'create_create');
    this.yourVersion = details.your_version ?? baseVersion;
    this.currentVersion = details.current_version ?? answer.version;
    this.changedBy = details.changed_by ?? null;
    this.changedAt = details.changed_at ?? null;
    this.current = frozen(answer.data ?? base);
    this.yours = frozen({ ...previous?.yours, ...changes });
    this.previous = previous ?? null;
    this.baseAvailable = details.base_available ?? false;
    const given = details.fields ?? theirChanges(base, changes, this.current, versionField);
    const { fields, corrected } = judge({ given, base, sent, changes, current: this.current });
    this.fields = frozen(fields);
    this.mergeable = details.mergeable === true && !corrected && operation === 'save' && this.clashes.length === 0;
    Object.freeze(this);
  }

  /** The fields that need a decision. */
  get clashes() {
    return this.fields.filter(({ verdict }) => verdict === 'both').map(({ field }) => field);
  }

  /**
   * A record based on the current version that carries the decisions; nothing is sent before it is
   * saved. What does not clash is combined unless a choice says otherwise. Over a deletion, saving
   * it restores the record.
   */
  resolve(choices = {}) {
    const byField = new Map(this.fields.map((entry) => [entry.field, entry]));
    for (const name of Object.keys(choices)) {
      if (!byField.has(name) && !Object.hasOwn(this.yours, name)) throw new TypeError(`Nobody changed "${name}"`);
    }
    const undecided = this.clashes.filter((field) => choices[field] === undefined);
    if (undecided.length > 0) throw new UndecidedError(undecided);
    const data = copy(this.current);
    const decide = (field, value) => {
      if (value === undefined) delete data[field];
      else data[field] = copy(value);
    };
    for (const { field, verdict, yours, merged } of this.fields) {
      if (choices[field] !== undefined) continue;
      if (verdict === 'yours') decide(field, Object.hasOwn(this.yours, field) ? this.yours[field] : yours);
      if (verdict === 'merged') decide(field, merged);
    }
    for (const [field, choice] of Object.entries(choices)) {
      if (choice === undefined || choice === 'theirs') continue;
      if (choice === 'mine') decide(field, Object.hasOwn(this.yours, field) ? this.yours[field] : byField.get(field).yours);
      else if (choice !== null && typeof choice === 'object' && 'value' in choice) decide(field, choice.value);
      else throw new TypeError(`The choice for "${field}" must be 'mine', 'theirs' or { value }`);
    }
    return this.#next(this, data);
  }

  /** Saves both changes, combined by the server; only where no field clashes. */
  saveMerged(options) {
    if (!this.mergeable) throw new UndecidedError(this.clashes);
    return this.#merge(options);
  }

  /** `resolve` and save, for a record that was deleted. */
  restore(choices, options) {
    if (!this.deleted) throw new TypeError('The record was not deleted; resolve() the conflict');
    return this.resolve(choices).save(options);
  }
}

/**
 * The verdicts as the server gives them, with what it could not judge added: a value that its
 * column cannot take, which is in no list of the server's, and what was typed after the write was
 * sent. Neither must get lost.
 */
function judge({ given, base, sent, changes, current }) {
  const fields = given.map((entry) => ({ ...entry }));
  const byField = new Map(fields.map((entry) => [entry.field, entry]));
  let corrected = false;
  for (const [field, yours] of Object.entries(changes)) {
    const entry = byField.get(field);
    const late = !Object.hasOwn(sent, field) || !equal(yours, sent[field]);
    if (!entry) {
      if (alike(yours, current[field])) continue;
      const verdict = equal(base[field], current[field]) ? 'yours' : 'both';
      fields.push({ field, verdict, base: base[field], yours, theirs: current[field] });
      corrected = true;
    } else if (late || (entry.verdict === 'theirs' && !alike(yours, entry.yours))) {
      const clash = entry.verdict === 'yours' ? 'yours' : 'both';
      Object.assign(entry, { verdict: alike(yours, current[field]) ? 'same' : clash, yours });
      delete entry.merged;
      corrected = true;
    }
  }
  return { fields, corrected };
}

/** Where the server gives no list, it is made from the row that was read. */
function theirChanges(base, changes, current, versionField) {
  return Object.keys(current)
    .filter((field) => field !== versionField && Object.hasOwn(base, field) && !Object.hasOwn(changes, field) && !equal(base[field], current[field]))
    .map((field) => ({ field, verdict: 'theirs', base: base[field], yours: base[field], theirs: current[field] }));
}
