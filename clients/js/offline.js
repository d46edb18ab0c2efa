// Counterfoil's client for work without a connection: edits wait in a queue that outlives the page and
// reach the server exactly once; rows come down with a cursor. No dependencies, nothing to build.

export { Offline, OfflineResource } from './lib/offline/offline.js';
export { Problem } from './lib/offline/problem.js';
export { indexedDBStore } from './lib/offline/indexeddb.js';
export { memoryStore } from './lib/offline/memory.js';
