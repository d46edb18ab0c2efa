/** A value as JSON has it; numbers that a double cannot hold are `bigint` or `Decimal`. */
export type Value = null | boolean | number | bigint | Decimal | string | Value[] | { [name: string]: Value };

/** A row whose fields are not declared. */
export type AnyRow = { [field: string]: any };

export type Field<T> = keyof T & string;

/** The id of a record; the parts of a composite key as a list. */
export type Id = string | number | bigint | readonly (string | number | bigint)[];

export interface Options {
  /** The address of the server; in a browser the page's own where nothing is said. */
  base?: string | URL;
  /** What sends requests; `globalThis.fetch` where nothing is said. */
  fetch?: typeof fetch;
  /** Headers of every request, such as `Authorization`; a function is asked each time. */
  headers?: HeadersInit | (() => HeadersInit | Promise<HeadersInit>);
  /** Who acts (`X-Actor`), where the server runs without authentication. */
  actor?: string | (() => string | null | undefined);
  /** How `watch` learns of changes; polling every five seconds where nothing is said. */
  source?: Source;
}

export interface ResourceOptions {
  /** The fields of the key, in order; `id` where nothing is said. */
  key?: string | readonly string[];
  /** The field that holds the version, where the table was adopted with another one. */
  versionField?: string;
}

export interface Call {
  signal?: AbortSignal;
}

export class Counterfoil {
  constructor(options?: Options);
  resource<T extends object = AnyRow>(name: string, options?: ResourceOptions): Resource<T>;
}

/** A query in the spelling of the server: `{ status: 'eq.draft', order: 'due_on.desc' }`. */
export type Query =
  | URLSearchParams
  | { [name: string]: string | number | bigint | boolean | readonly (string | number)[] | null | undefined };

export class Resource<T extends object = AnyRow> {
  private constructor();
  readonly name: string;
  /** The path of a record, or of all, below `/api/v1`. */
  path(id?: Id): string;
  /** Reads a record; throws `NOT_FOUND` or `RECORD_DELETED` (whose `data` is the last row). */
  read(id: Id, options?: Call & { version?: number; select?: string | readonly Field<T>[] }): Promise<VersionedRecord<T>>;
  /** The records that a query finds, page after page. */
  list(query?: Query, options?: Call & { count?: boolean }): List<T>;
  /**
   * Creates a record (POST). With an id it is created under that id, over a deletion too, and an id
   * that is taken is a conflict (PUT with `If-None-Match: *`).
   */
  create(data: Partial<T>, options?: Call): Promise<Saved<T>>;
  create(data: Partial<T>, options: Call & { id: Id }): Promise<Result<T>>;
  /** Raises a number by one statement, whatever version the record is at. */
  increment(id: Id, field: Field<T>, by?: number | bigint | Decimal, options?: Call): Promise<VersionedRecord<T>>;
  /** The versions of a record, newest first; `limit` is the size of a page. */
  history(id: Id, options?: Call & { limit?: number }): AsyncIterableIterator<HistoryEntry<T>>;
}

export interface Page<T extends object> {
  records: VersionedRecord<T>[];
  /** The cursor of the next page. */
  next: string | null;
  /** How many records there are in all, where `count` was asked for. */
  total: number | null;
}

export interface List<T extends object> extends AsyncIterable<VersionedRecord<T>> {
  page(after?: string | null): Promise<Page<T>>;
  pages(): AsyncIterableIterator<Page<T>>;
}

export interface HistoryEntry<T extends object> {
  version: number;
  op: 'baseline' | 'create' | 'update' | 'delete';
  at: string;
  by: string;
  changed: Field<T>[];
  /** The two versions that this one is a merge of. */
  mergedFrom: [number, number] | null;
  data: T;
}

export interface Saved<T extends object> {
  ok: true;
  outcome:
    | 'saved'
    | 'unchanged'
    | 'already-applied'
    | 'merged'
    | 'created'
    | 'removed'
    | 'already-removed'
    | 'restored'
    | 'incremented';
  record: VersionedRecord<T>;
  /** What a merge on the server was made of. */
  merged?: { base: number; onto: number; fields: FieldVerdict<T>[] };
}

export interface Refused<T extends object> {
  ok: false;
  conflict: Conflict<T>;
}

export type Result<T extends object> = Saved<T> | Refused<T>;

/** What a write does where it meets a newer row. */
export type OnConflict = 'fail' | 'merge' | 'merge_mine' | 'merge_theirs';

/** A record as it was read, and the copy of it that is edited. */
export class VersionedRecord<T extends object = AnyRow> {
  private constructor();
  readonly id: Id;
  readonly version: number | null;
  /** The tag that the next write names. */
  readonly etag: string | null;
  /** False once it was removed, and where it was resolved over a deletion; `save` then creates it. */
  readonly exists: boolean;
  /** Edit this. */
  data: T;
  /** The row as it was read or last saved; frozen. */
  readonly original: Readonly<T>;
  /** Whether anything was edited. */
  readonly changed: boolean;
  /** What was edited, field by field. `null` empties a field; a deleted member is no change. */
  changes(): Partial<T>;
  /** Takes the edits back. */
  discard(): void;
  /** Saves the edits if nobody saved meanwhile (PATCH, or PUT of the whole row). */
  save(options?: Call & { onConflict?: OnConflict; method?: 'PATCH' | 'PUT' }): Promise<Result<T>>;
  /** The conflict that `save` would meet, without writing; null where there is none. */
  compare(options?: Call): Promise<Conflict<T> | null>;
  /** Deletes the record if nobody saved meanwhile. */
  remove(options?: Call): Promise<Result<T>>;
  /** Makes an earlier version the newest, if nobody saved meanwhile. */
  restore(version: number, options?: Call): Promise<Result<T>>;
  /**
   * Raises a number by one statement, whatever version the record is at. Where others wrote in
   * between and edits are unsaved, `record` of the result is another than this one.
   */
  increment(field: Field<T>, by?: number | bigint | Decimal, options?: Call): Promise<Saved<T>>;
  /** The record as it stands now, as a record of its own. */
  latest(options?: Call): Promise<VersionedRecord<T>>;
  history(options?: Call & { limit?: number }): AsyncIterableIterator<HistoryEntry<T>>;
  /** Whether somebody else saved or deleted it. */
  peek(options?: Call): Promise<News | null>;
  /** Tells once of each version that somebody else saved; gives the function that ends it. */
  watch(callback: (news: News & { record: VersionedRecord<T> }) => void, options?: Call & { source?: Source }): () => void;
}

export interface News {
  deleted: boolean;
  /** The version it is at; null where it was deleted. */
  version: number | null;
}

/** Where `watch` learns of changes. */
export interface Source {
  subscribe(record: VersionedRecord, listener: (news: News) => void | Promise<void>): () => void;
}

/** Asks for the record's headers every so many milliseconds, unless the page is hidden. */
export function polling(options?: { interval?: number }): Source;

/** Who changed a field: both alike (`same`), in a way that combines (`merged`), or in a clash (`both`). */
export type Verdict = 'yours' | 'theirs' | 'same' | 'merged' | 'both';

/** One field that somebody changed; a value that is not there is undefined. */
export interface FieldVerdict<T extends object = AnyRow, F extends Field<T> = Field<T>> {
  field: F;
  verdict: Verdict;
  base?: T[F];
  yours?: T[F];
  theirs?: T[F];
  merged?: T[F];
}

/** Whose value a field gets. */
export type Choice<V> = 'mine' | 'theirs' | { value: V };

export type Choices<T extends object> = { [F in Field<T>]?: Choice<T[F]> };

/** A refused write: who changed what meanwhile, what was typed, and the way on. Frozen. */
export class Conflict<T extends object = AnyRow> {
  private constructor();
  readonly operation: 'save' | 'remove' | 'restore';
  readonly kind: 'update_update' | 'delete_update' | 'update_delete' | 'create_create';
  readonly message: string;
  readonly requestId: string | null;
  /** The record was deleted; `current` is then its last row. */
  readonly deleted: boolean;
  /** The version the write was based on. */
  readonly yourVersion: number | null;
  readonly currentVersion: number | null;
  readonly current: Readonly<T>;
  readonly changedBy: string | null;
  /** RFC 3339 with microseconds, by the database's clock. */
  readonly changedAt: string | null;
  /** Whether the server still has the row that the write was based on. */
  readonly baseAvailable: boolean;
  /** Every field that anybody changed. */
  readonly fields: readonly FieldVerdict<T>[];
  /** The fields that need a decision. */
  readonly clashes: Field<T>[];
  /** Whether `saveMerged` can combine both changes. */
  readonly mergeable: boolean;
  /** What was typed, also what an earlier decision put aside. */
  readonly yours: Readonly<Partial<T>>;
  /** The conflict whose resolution met this one. */
  readonly previous: Conflict<T> | null;
  /**
   * A record based on the current version that carries the decisions. Sends nothing; throws
   * `UndecidedError` where a clash has no choice.
   */
  resolve(choices?: Choices<T>): VersionedRecord<T>;
  /** Saves both changes, combined by the server; throws `UndecidedError` where it is not `mergeable`. */
  saveMerged(options?: Call): Promise<Result<T>>;
  /** Over a deletion: resolves and saves, which creates the record again. */
  restore(choices?: Choices<T>, options?: Call): Promise<Result<T>>;
}

export class UndecidedError extends Error {
  constructor(fields: string[]);
  readonly fields: string[];
}

/** A request that failed for another reason than a conflict. */
export class CounterfoilError extends Error {
  constructor(facts: {
    status: number;
    code: string;
    message: string;
    details?: { [name: string]: Value };
    data?: AnyRow | null;
    requestId?: string | null;
    retryAfter?: number | null;
    cause?: unknown;
  });
  /** The HTTP status; 0 where there was no answer. */
  readonly status: number;
  /** A code of the server's, or `NETWORK_ERROR`, `INVALID_ANSWER`, `UNKNOWN`. */
  readonly code: string;
  readonly details: { [name: string]: any };
  /** The field at fault, where there is one. */
  readonly field: string | null;
  /** The row that stands against the request, where the server shows one. */
  readonly data: AnyRow | null;
  readonly requestId: string | null;
  /** Seconds to wait before another try, where the server says so. */
  readonly retryAfter: number | null;
}

/** A number with more digits than a double holds. It takes no part in arithmetic by accident. */
export class Decimal {
  constructor(text: string | number | bigint);
  toString(): string;
  /** The nearest double; loses digits. */
  toNumber(): number;
  equals(other: unknown): boolean;
  toJSON(): string;
  [Symbol.toPrimitive](hint: string): string;
}

/** The number that a text spells, with all its digits; throws a `TypeError` where it spells none. */
export function number(text: string): number | bigint | Decimal;

/** `JSON.parse` that keeps all digits. */
export function parse(text: string): any;

/** `JSON.stringify` that keeps all digits; throws a `TypeError` for NaN and infinities. */
export function stringify(value: unknown): string;

/** Whether two JSON values are the same, numbers by what they are worth. */
export function equal(a: unknown, b: unknown): boolean;
