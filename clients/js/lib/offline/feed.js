// The way down: a first copy, then changes. The cursor is kept in the transaction of the page it
// belongs to, so that no change is skipped and one that is told twice does no harm.

import { distrust, keepRow } from './edits.js';
import { recordKey } from './tables.js';

export async function feedState(tx) {
  return (await tx.get('meta', 'feed')) ?? { generation: 0, resources: null, cursor: null, after: null, copying: false };
}

/** What to ask next: `pull` from a cursor, or a page of a `snapshot`. */
export async function nextPage(tx, resources) {
  const state = await feedState(tx);
  const other = state.resources !== null && state.resources !== resources;
  if (state.copying && !other) return { kind: 'snapshot', after: state.after };
  if (state.cursor === null || other) return { kind: 'begin' };
  return { kind: 'pull', cursor: state.cursor };
}

/** Begins a first copy. What is here stays readable; what the copy does not hold goes at its end. */
export async function beginCopy(tx, resources) {
  const state = await feedState(tx);
  tx.put('meta', 'feed', { generation: state.generation + 1, resources, cursor: null, after: null, copying: true });
}

/** Takes a page that was asked for as `asked`; one that another tab took meanwhile is passed by. */
export async function takePage(tx, asked, page) {
  const state = await feedState(tx);
  const expected = asked.kind === 'pull' ? !state.copying && state.cursor === asked.cursor : state.copying && state.after === asked.after;
  if (!expected) return [];
  const changed = [];
  for (const { resource, id, version, op, data } of page.changes) {
    const place = { resource, record: id };
    const removed = op === 'remove';
    if (await keepRow(tx, place, version, op === 'upsert' ? data : null, { removed })) changed.push(place);
  }
  if (asked.kind === 'pull') tx.put('meta', 'feed', { ...state, cursor: page.cursor });
  else if (page.after !== null) tx.put('meta', 'feed', { ...state, after: page.after });
  else {
    changed.push(...(await sweep(tx, state.generation)));
    tx.put('meta', 'feed', { ...state, cursor: page.cursor, after: null, copying: false });
    await distrust(tx);
  }
  return changed;
}

/** What a copy that is whole did not hold is gone. */
async function sweep(tx, generation) {
  const gone = [];
  for (const { resource, record, row, ...known } of await tx.list('records')) {
    if (known.generation === generation) continue;
    tx.delete('records', recordKey(resource, record));
    if (row !== null) gone.push({ resource, record });
  }
  return gone;
}
