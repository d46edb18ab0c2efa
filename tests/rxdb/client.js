// An app that keeps invoices in RxDB, as docs/offline.md builds it: three handlers, and a server-sent
// stream that Node 20 has no class for.

import { addRxPlugin, createRxDatabase } from 'rxdb/plugins/core';
import { replicateRxCollection } from 'rxdb/plugins/replication';
import { getRxStorageMemory } from 'rxdb/plugins/storage-memory';
import { RxDBUpdatePlugin } from 'rxdb/plugins/update';
import { wrappedValidateAjvStorage } from 'rxdb/plugins/validate-ajv';
import { Subject } from 'rxjs';

addRxPlugin(RxDBUpdatePlugin);

const nullable = (type) => ({ type: [type, 'null'] });

const INVOICES = {
  version: 0,
  primaryKey: 'id',
  type: 'object',
  properties: {
    id: { type: 'string', maxLength: 36 },
    number: { type: 'string' },
    customer: { type: 'string' },
    status: { type: 'string' },
    amount: { type: 'number' },
    currency: { type: 'string' },
    due_on: nullable('string'),
    memo: nullable('string'),
    tags: { type: 'array' },
    lines: { type: 'array' },
    created_at: { type: 'string' },
    version: { type: 'integer' },
  },
  required: ['id', 'number', 'customer', 'amount'],
};

/** An app: its collection, its replication, and what its conflict handler was asked. */
export async function startApp(base, { batchSize = 100, query = '', resolve } = {}) {
  // An app keeps it beside its data: it is the same after a reload.
  const client = crypto.randomUUID();
  // Documents are checked against the schema, so that one with a member too many is an error.
  const storage = wrappedValidateAjvStorage({ storage: getRxStorageMemory() });
  const database = await createRxDatabase({ name: crypto.randomUUID(), storage, multiInstance: false });
  const conflicts = [];
  const conflictHandler = {
    isEqual: (a, b) => a._deleted === b._deleted && JSON.stringify(sorted(a)) === JSON.stringify(sorted(b)),
    async resolve(input) {
      conflicts.push(input);
      return resolve ? resolve(input) : input.realMasterState;
    },
  };
  const { invoices } = await database.addCollections({ invoices: { schema: INVOICES, conflictHandler } });
  const network = new Network(`${base}/api/v1/sync/rxdb/invoices`);
  const replication = replicateRxCollection({
    collection: invoices,
    replicationIdentifier: 'counterfoil-invoices',
    retryTime: 25,
    waitForLeadership: false,
    pull: {
      batchSize,
      async handler(checkpoint, limit) {
        const response = await network.fetch(`/pull?cursor=${checkpoint?.cursor ?? ''}&limit=${limit}`);
        if (!response.ok) throw new Error(`pull: ${response.status} ${await response.text()}`);
        return response.json();
      },
      stream$: network.events.asObservable(),
    },
    push: {
      batchSize,
      async handler(rows) {
        const response = await network.fetch(`/push?client_id=${client}${query}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-actor': 'rxdb' },
          body: JSON.stringify(rows),
        });
        if (!response.ok) throw new Error(`push: ${response.status} ${await response.text()}`);
        return response.json();
      },
    },
  });
  const errors = [];
  replication.error$.subscribe((error) => errors.push(error));
  network.listen();
  return {
    invoices,
    conflicts,
    errors,
    network,
    replication,
    async inSync() {
      replication.reSync();
      await replication.awaitInSync();
    },
    async stop() {
      network.end();
      await replication.cancel();
      await database.close();
    },
  };
}

function sorted(document) {
  return Object.keys(document).sort().map((name) => [name, document[name]]);
}

/** The way to the server: it can be away, and answers can get lost. */
class Network {
  events = new Subject();
  online = true;
  /** How many answers are to get lost. */
  losing = 0;
  requests = 0;
  #root;
  #ending = new AbortController();
  #connection = null;
  #last = null;

  constructor(root) {
    this.#root = root;
  }

  async fetch(path, init) {
    if (!this.online) throw new TypeError('offline');
    this.requests += 1;
    const response = await fetch(this.#root + path, init);
    if (this.losing > 0 && init?.method === 'POST') {
      this.losing -= 1;
      await response.text();
      throw new TypeError('connection reset');
    }
    return response;
  }

  goOffline() {
    this.online = false;
    this.#connection?.abort();
  }

  goOnline() {
    this.online = true;
  }

  end() {
    this.#ending.abort();
    this.#connection?.abort();
  }

  /** What a browser's EventSource does, with RESYNC whenever it is opened. */
  async listen() {
    while (!this.#ending.signal.aborted) {
      try {
        await this.#receive();
      } catch {
        // It comes back.
      }
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }

  async #receive() {
    if (!this.online) return;
    this.#connection = new AbortController();
    const headers = this.#last ? { 'last-event-id': this.#last } : {};
    const response = await fetch(`${this.#root}/stream`, { headers, signal: this.#connection.signal });
    if (!response.ok) throw new Error(`stream: ${response.status}`);
    this.events.next('RESYNC');
    let text = '';
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
        this.#take(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
  }

  #take(event) {
    const fields = event.split('\n').map((line) => /^(\w+): ?(.*)$/.exec(line)).filter(Boolean);
    const value = (name) => fields.find((field) => field[1] === name)?.[2];
    this.#last = value('id') ?? this.#last;
    const data = value('data');
    if (data !== undefined && value('event') === undefined) this.events.next(JSON.parse(data));
  }
}
