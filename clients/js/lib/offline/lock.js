// One of all tabs talks to the server at a time. Where there are no Web Locks each page has a queue of
// its own, and tabs that push at once are kept apart by the server.

const queues = new Map();

/** Runs `work` while nobody else holds the name. */
export function alone(name, work) {
  if (globalThis.navigator?.locks) return globalThis.navigator.locks.request(name, work);
  const before = queues.get(name) ?? Promise.resolve();
  const run = before.then(work);
  const ended = run.then(() => {}, () => {}).then(() => {
    if (queues.get(name) === ended) queues.delete(name);
  });
  queues.set(name, ended);
  return run;
}
