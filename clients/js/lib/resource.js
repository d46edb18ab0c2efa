// A resource: finding, reading and creating its records.

import { copy } from './json.js';
import { VersionedRecord, create } from './record.js';
import { queryString, segment } from './wire.js';

export class Resource {
  #link;

  /** `link` is what records share: the wire, the name, the fields of the key and of the version. */
  constructor(link) {
    this.#link = { ...link, resource: this };
  }

  get name() {
    return this.#link.name;
  }

  /** The address of a record, or of all, below `/api/v1`. */
  path(id) {
    const all = `/${encodeURIComponent(this.#link.name)}`;
    return id === undefined ? all : `${all}/${segment(id)}`;
  }

  /** Reads a record, as it stands or at an earlier version. */
  async read(id, { version, select, signal } = {}) {
    const names = Array.isArray(select) ? select.join(',') : select;
    const path = this.path(id) + queryString({ version, select: names });
    const answer = await this.#link.wire.send('GET', path, { signal });
    if (!answer.ok) throw answer.error();
    const partial = names !== undefined;
    return new VersionedRecord(this.#link, { id, row: answer.data, version: answer.version, partial });
  }

  /** The records that a query finds: an async iterable over all of them, page after page. */
  list(query = {}, options = {}) {
    return new List(this.#link, query, options);
  }

  /**
   * Creates a record. With an id it is created under that id, over a deletion too, and an id that
   * is taken is a conflict.
   */
  async create(data, { id, signal } = {}) {
    if (id !== undefined) return create(this.#link, id, data, { signal });
    const answer = await this.#link.wire.send('POST', this.path(), { body: copy(data), signal });
    if (!answer.ok) throw answer.error();
    const record = new VersionedRecord(this.#link, { id: this.#idOf(answer), row: answer.data, version: answer.version });
    return { ok: true, outcome: 'created', record };
  }

  /** Raises a number by one statement, whatever version the record is at. Gives the record. */
  async increment(id, field, by = 1, { signal } = {}) {
    const answer = await this.#link.wire.send('POST', `${this.path(id)}/increment`, { body: { field, by }, signal });
    if (!answer.ok) throw answer.error();
    return new VersionedRecord(this.#link, { id, row: answer.data, version: answer.version });
  }

  /** The versions of a record, newest first: an async iterable. */
  async *history(id, { limit, signal } = {}) {
    let after;
    do {
      const path = `${this.path(id)}/history${queryString({ limit, after })}`;
      const answer = await this.#link.wire.send('GET', path, { signal });
      if (!answer.ok) throw answer.error();
      for (const { merged_from: mergedFrom = null, ...entry } of answer.data) yield { ...entry, mergedFrom };
      after = answer.body.page?.next;
    } while (after);
  }

  /** The id of a new record: from the row, else from its address. */
  #idOf({ data, headers }) {
    const known = this.#link.keyFields.every((field) => data[field] !== undefined);
    const address = headers.get('location');
    return known || !address ? idOf(this.#link, data) : decodeURIComponent(address.split('/').at(-1));
  }
}

function idOf({ keyFields, name }, row) {
  const missing = keyFields.find((field) => row[field] === undefined);
  if (missing !== undefined) {
    throw new TypeError(`Rows of ${name} show no "${missing}"; say which fields are the key: resource('${name}', { key: [...] })`);
  }
  const parts = keyFields.map((field) => row[field]);
  return parts.length === 1 ? parts[0] : parts;
}

class List {
  #link;
  #query;
  #options;

  constructor(link, query, options) {
    this.#link = link;
    this.#query = query;
    this.#options = options;
  }

  /** One page: the first, or the one after a cursor. */
  async page(after) {
    const { count = false, signal } = this.#options;
    const query = new URLSearchParams(queryString(this.#query));
    if (after) query.set('after', after);
    const headers = count ? { prefer: 'count=exact' } : {};
    const path = this.#link.resource.path() + queryString(query);
    const answer = await this.#link.wire.send('GET', path, { headers, signal });
    if (!answer.ok) throw answer.error();
    const partial = query.has('select');
    const records = answer.data.map((row) => {
      const version = row[this.#link.versionField];
      return new VersionedRecord(this.#link, { id: idOf(this.#link, row), row, version, partial });
    });
    const total = /\/(\d+)$/.exec(answer.headers.get('content-range') ?? '');
    return { records, next: answer.body.page?.next ?? null, total: total ? Number(total[1]) : null };
  }

  async *pages() {
    let next;
    do {
      const page = await this.page(next);
      yield page;
      next = page.next;
    } while (next);
  }

  async *[Symbol.asyncIterator]() {
    for await (const { records } of this.pages()) yield* records;
  }
}
