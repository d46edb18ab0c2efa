// A store in memory, for Node and for tests. Transactions follow each other; one that throws leaves nothing.

import { TABLES } from './tables.js';

/** Makes a store. What it holds lives as long as the object. */
export function memoryStore() {
  return new MemoryStore();
}

class MemoryStore {
  #tables = Object.fromEntries(TABLES.map((name) => [name, new Map()]));
  #last = Promise.resolve();

  async open() {}

  async close() {}

  read(work) {
    return work(new Transaction(this.#tables));
  }

  write(work) {
    const run = this.#last.then(async () => {
      const transaction = new Transaction(this.#tables);
      const given = await work(transaction);
      transaction.commit();
      return given;
    });
    this.#last = run.then(() => {}, () => {});
    return run;
  }
}

/** Reads see what the transaction itself wrote. */
class Transaction {
  #tables;
  #written = Object.fromEntries(TABLES.map((name) => [name, new Map()]));

  constructor(tables) {
    this.#tables = tables;
  }

  async get(table, key) {
    const written = this.#written[table];
    return written.has(key) ? written.get(key) : this.#tables[table].get(key);
  }

  /** In the order of the keys. */
  async list(table, prefix) {
    const all = new Map([...this.#tables[table], ...this.#written[table]]);
    const keys = [...all.keys()].filter((key) => all.get(key) !== undefined && (prefix === undefined || key.startsWith(prefix)));
    return keys.sort((a, b) => (a < b ? -1 : 1)).map((key) => all.get(key));
  }

  put(table, key, value) {
    this.#written[table].set(key, value);
  }

  delete(table, key) {
    this.#written[table].set(key, undefined);
  }

  commit() {
    for (const [table, written] of Object.entries(this.#written)) {
      for (const [key, value] of written) {
        if (value === undefined) this.#tables[table].delete(key);
        else this.#tables[table].set(key, value);
      }
    }
  }
}
