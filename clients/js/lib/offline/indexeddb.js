// A store in the browser's IndexedDB. It outlives the page, and all tabs of an origin share it.

import { TABLES } from './tables.js';

const FORM = 1;

/** Makes a store under a name. */
export function indexedDBStore(name, { factory = globalThis.indexedDB } = {}) {
  return new IndexedDBStore(name, factory);
}

class IndexedDBStore {
  #name;
  #factory;
  #database = null;

  constructor(name, factory) {
    this.#name = name;
    this.#factory = factory;
  }

  async open() {
    const request = this.#factory.open(this.#name, FORM);
    request.onupgradeneeded = () => {
      for (const table of TABLES) request.result.createObjectStore(table);
    };
    const database = await done(request);
    // Another tab may delete the database, or come with a newer form of it.
    database.onversionchange = () => this.close();
    database.onclose = () => (this.#database = null);
    this.#database = database;
  }

  async close() {
    this.#database?.close();
    this.#database = null;
  }

  read(work) {
    return this.#run('readonly', work);
  }

  write(work) {
    return this.#run('readwrite', work);
  }

  async #run(mode, work) {
    if (!this.#database) await this.open();
    // Only once it is on the disk has an edit been kept.
    const transaction = this.#database.transaction(TABLES, mode, { durability: mode === 'readwrite' ? 'strict' : 'default' });
    const ended = new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onerror = transaction.onabort = () => reject(transaction.error ?? new Error('The transaction was aborted'));
    });
    // It is awaited below; until then a failure is not one that nobody handles.
    ended.catch(() => {});
    let given;
    try {
      given = await work(new Transaction(transaction));
    } catch (error) {
      try {
        transaction.abort();
      } catch {
        // It has ended already.
      }
      throw error;
    }
    await ended;
    return given;
  }
}

class Transaction {
  #transaction;

  constructor(transaction) {
    this.#transaction = transaction;
  }

  get(table, key) {
    return done(this.#transaction.objectStore(table).get(key));
  }

  /** In the order of the keys. */
  list(table, prefix) {
    const range = prefix === undefined ? undefined : IDBKeyRange.bound(prefix, after(prefix), false, true);
    return done(this.#transaction.objectStore(table).getAll(range));
  }

  put(table, key, value) {
    this.#transaction.objectStore(table).put(value, key);
  }

  delete(table, key) {
    this.#transaction.objectStore(table).delete(key);
  }
}

/** The least text that is behind all that begin so. */
function after(prefix) {
  return prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
}

function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
