import type { AnyRow, Call, Choices, Conflict, Field, Id, OnConflict, Options } from './counterfoil.js';

/** A transaction of a store. What `list` gives is in the order of the keys. */
export interface Transaction {
  get(table: string, key: string | number): Promise<any>;
  list(table: string, prefix?: string): Promise<any[]>;
  put(table: string, key: string | number, value: unknown): void;
  delete(table: string, key: string | number): void;
}

/** Where edits and rows are kept. What a `write` does is kept together or not at all. */
export interface Store {
  open(): Promise<void>;
  close(): Promise<void>;
  read<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
}

/** A store in memory; it lives as long as the object. */
export function memoryStore(): Store;

/** A store in the browser's IndexedDB; it outlives the page, and all tabs share it. */
export function indexedDBStore(name: string, options?: { factory?: IDBFactory }): Store;

export interface OfflineResourceOptions {
  /** The fields of the key, in order; `id` where nothing is said. */
  key?: string | readonly string[];
  /** The field that holds the version, where the table was adopted with another one. */
  versionField?: string;
}

export interface OfflineOptions extends Pick<Options, 'base' | 'fetch' | 'headers' | 'actor'> {
  /** What is kept here: the names of resources, or their options by name. */
  resources: readonly string[] | { [name: string]: OfflineResourceOptions };
  /** Under which name; another one for each account. `counterfoil` where nothing is said. */
  name?: string;
  /** Where; IndexedDB where there is one, else memory. */
  store?: Store;
  /** How many changes are read at a time. */
  pageSize?: number;
}

export type News =
  /** Rows changed, here or on the server. */
  | { type: 'rows'; resource: string; ids: string[] }
  /** Something was added to what waits, or left it. */
  | { type: 'queue' }
  /** An edit was refused (`status`), or a refusal was decided. */
  | { type: 'problem'; resource: string; id: string; status?: 'conflict' | 'rejected' | 'blocked' }
  /** How the last round went; `retryIn` is in milliseconds. */
  | { type: 'status'; online: boolean; pushed?: number; pulled?: number; error?: unknown; retryIn?: number };

export class Offline {
  private constructor();
  /** Opens what is kept under a name, or begins it. */
  static open(options: OfflineOptions): Promise<Offline>;
  resource<T extends object = AnyRow>(name: string): OfflineResource<T>;
  /** How many edits wait for the server. */
  pending(): Promise<number>;
  /** The edits that were refused and wait for a decision. */
  problems(): Promise<Problem[]>;
  /** Tells of what changes, also in other tabs; gives the function that ends it. */
  subscribe(listener: (news: News) => void): () => void;
  /**
   * Reads what is new and sends what waits, once. Throws a `CounterfoilError` where the server cannot be
   * reached or refuses; what was done until then is kept.
   */
  sync(options?: Call): Promise<{ pulled: number; pushed: number }>;
  /**
   * Keeps in step with the server until `stop` or `close`. `poll` is how often to ask although nothing
   * seems to be new, `retry` how long to pause after failures, in milliseconds. Settles after the first round.
   */
  start(options?: { poll?: number; stream?: boolean; retry?: { first?: number; longest?: number } }): Promise<void>;
  stop(): Promise<void>;
  close(): Promise<void>;
}

export interface LocalRow<T extends object> {
  id: string;
  /** The row with the edits on it that wait. */
  data: T;
  /** The version that the server last told; null where it knows none yet. */
  version: number | null;
  /** How many edits wait. */
  pending: number;
  /** Whether an edit was refused. */
  problem: 'conflict' | 'rejected' | 'blocked' | null;
}

export class OfflineResource<T extends object = AnyRow> {
  private constructor();
  readonly name: string;
  /** A row as it is known here; null where there is none. */
  get(id: Id): Promise<LocalRow<T> | null>;
  all(): Promise<LocalRow<T>[]>;
  /** Creates a row; an id is made where the row has none. Gives the id. */
  create(data: Partial<T>, options?: { id?: Id }): Promise<Id>;
  /** Changes fields of a row; null empties one. */
  patch(id: Id, changes: Partial<T>, options?: { onConflict?: OnConflict }): Promise<void>;
  /** Replaces a row. */
  put(id: Id, data: Partial<T>, options?: { onConflict?: OnConflict }): Promise<void>;
  remove(id: Id): Promise<void>;
}

/** An edit that the server refused, kept until somebody decides. */
export class Problem<T extends object = AnyRow> {
  private constructor();
  readonly resource: string;
  readonly id: string;
  /** Somebody was faster; it can never hold; what it was based on did not hold. */
  readonly status: 'conflict' | 'rejected' | 'blocked';
  readonly operation: 'create' | 'save' | 'remove';
  readonly error: { readonly code: string; readonly message: string; readonly details: { readonly [name: string]: any } };
  /** The row as it was seen when it was edited. */
  readonly base: Readonly<T> | null;
  /** What was typed. */
  readonly yours: Readonly<Partial<T>>;
  /** Of a conflict: who changed what, and the row as it stands. */
  readonly conflict: Conflict<T> | null;
  /** Gives up what was typed. */
  discard(): Promise<void>;
  /**
   * Queues an edit that carries the decisions. Of a conflict these are `'mine'`, `'theirs'` or `{ value }`
   * for each field that clashes; else they are corrected fields.
   */
  resolve(choices?: Choices<T> | { [F in Field<T>]?: T[F] }): Promise<void>;
  /** Queues the deletion of the row as it stands now. */
  remove(): Promise<void>;
  /** Queues the edit once more, to be combined with theirs by the server; only where no field clashes. */
  saveMerged(): Promise<void>;
}
