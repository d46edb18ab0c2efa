// Counterfoil's client for browsers and Node: read a record, edit it, save what changed, and where
// somebody else was faster get the conflict as data. No dependencies, nothing to build.

import { Resource } from './lib/resource.js';
import { Wire } from './lib/wire.js';
import { polling } from './lib/watch.js';

export { Conflict, UndecidedError } from './lib/conflict.js';
export { Decimal, equal, number, parse, stringify } from './lib/json.js';
export { VersionedRecord } from './lib/record.js';
export { Resource } from './lib/resource.js';
export { polling } from './lib/watch.js';
export { CounterfoilError } from './lib/wire.js';

export class Counterfoil {
  #wire;
  #source;

  constructor({ base, fetch, headers, actor, source = polling() } = {}) {
    this.#wire = new Wire({ base, fetch, headers, actor });
    this.#source = source;
  }

  resource(name, { key = 'id', versionField = 'version' } = {}) {
    const keyFields = Array.isArray(key) ? key : [key];
    return new Resource({ wire: this.#wire, source: this.#source, name, keyFields, versionField });
  }
}
