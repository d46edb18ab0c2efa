// What a store holds. Rows stand in it as JSON text, in which no digit is lost.

/**
 * `meta`: who this client is, how far it read and counted. `records`: rows as the server last told of
 * them, by `recordKey`. `queue`: edits that no result is known of, by their number. `problems`: edits
 * that were refused, by `recordKey`.
 */
export const TABLES = ['meta', 'records', 'queue', 'problems'];

/** Where a record stands. A name of a resource holds no line break. */
export function recordKey(resource, id) {
  return `${resource}\n${id}`;
}

/** The key of a resource's records up to the id. */
export function resourcePrefix(resource) {
  return `${resource}\n`;
}

/** The id of a record as the feed spells it; the parts of a composite key are joined by commas. */
export function recordId(id) {
  if (!Array.isArray(id)) return String(id);
  if (id.length === 1) return String(id[0]);
  return id.map((part) => String(part).replaceAll('%', '%25').replaceAll(',', '%2C')).join(',');
}
