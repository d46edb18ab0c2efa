// Requests and answers: addresses, headers, bodies, failures.

import { parse, stringify } from './json.js';

/** A request that failed for another reason than a conflict. */
export class CounterfoilError extends Error {
  name = 'CounterfoilError';

  constructor({ status, code, message, details = {}, data = null, requestId = null, retryAfter = null, cause }) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.code = code;
    this.details = details;
    this.field = details.field ?? null;
    this.data = data;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }
}

export class Wire {
  #base;
  #fetch;
  #headers;
  #actor;

  constructor({ base = globalThis.location?.origin, fetch, headers = {}, actor }) {
    if (!base) throw new TypeError('base is missing: the address of the server, such as http://127.0.0.1:8080');
    this.#base = String(base).replace(/\/+$/, '');
    this.#fetch = fetch ?? ((...request) => globalThis.fetch(...request));
    this.#headers = headers;
    this.#actor = actor;
  }

  /** The address of a path below `/api/v1`. */
  url(path) {
    return `${this.#base}/api/v1${path}`;
  }

  /** Sends a request and gives the answer, whatever its status. */
  async send(method, path, { headers = {}, body, signal } = {}) {
    const { sent, content } = await this.#request(headers, body);
    let response;
    let text;
    try {
      // The cache of a browser must not answer for the server: a version is needed as it is now.
      response = await this.#fetch(this.url(path), { method, headers: sent, body: content, signal, cache: 'no-store' });
      text = await response.text();
    } catch (cause) {
      if (cause?.name === 'AbortError' || signal?.aborted) throw cause;
      const reads = method === 'GET' || method === 'HEAD';
      const message = reads
        ? 'The server cannot be reached'
        : 'The connection was lost; whether the write was done is not known. Saving again is safe: it is conditional';
      throw new CounterfoilError({ status: 0, code: 'NETWORK_ERROR', message, cause });
    }
    return new Answer(response, text);
  }

  /** Opens an answer that goes on; gives it unread. */
  async open(path, { accept, signal }) {
    const { sent } = await this.#request({ accept });
    const response = await this.#fetch(this.url(path), { method: 'GET', headers: sent, signal, cache: 'no-store' });
    if (!response.ok) throw new Answer(response, await response.text()).error();
    return response;
  }

  async #request(headers, body) {
    const own = typeof this.#headers === 'function' ? await this.#headers() : this.#headers;
    const sent = new Headers(own);
    sent.set('accept', 'application/json');
    const actor = typeof this.#actor === 'function' ? this.#actor() : this.#actor;
    if (actor) sent.set('x-actor', bytes(actor));
    let content;
    if (body !== undefined) {
      sent.set('content-type', 'application/json');
      content = stringify(body);
    }
    for (const [name, value] of Object.entries(headers)) sent.set(name, value);
    return { sent, content };
  }
}

/** A header holds bytes; a name with other letters than ASCII goes as UTF-8. */
function bytes(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join('');
}

class Answer {
  constructor(response, text) {
    this.status = response.status;
    this.ok = response.ok;
    this.headers = response.headers;
    this.version = versionOf(response.headers.get('etag'));
    this.body = null;
    if (text !== '') {
      try {
        this.body = parse(text);
      } catch (cause) {
        // A failure that something between here and the server worded is told below, by its status.
        if (response.ok) throw new CounterfoilError({ status: this.status, code: 'INVALID_ANSWER', message: 'The answer is no JSON', cause });
      }
    }
  }

  get code() {
    return this.body?.error?.code ?? null;
  }

  get details() {
    return this.body?.error?.details ?? {};
  }

  get data() {
    return this.body?.data ?? null;
  }

  /** This answer as the error it is. */
  error() {
    const error = this.body?.error;
    const retryAfter = Number(this.headers.get('retry-after'));
    return new CounterfoilError({
      status: this.status,
      code: error?.code ?? 'UNKNOWN',
      message: error?.message ?? `The server answered ${this.status}`,
      details: error?.details ?? undefined,
      data: this.data,
      requestId: error?.request_id ?? this.headers.get('x-request-id'),
      retryAfter: retryAfter > 0 ? retryAfter : null,
    });
  }
}

/** The version that an ETag names, also where a proxy made it weak or added to it. */
function versionOf(etag) {
  const found = /^(?:W\/)?"(\d+)/.exec(etag ?? '');
  return found ? Number(found[1]) : null;
}

/** A path's segment for an id; the parts of a composite one are joined by commas. */
export function segment(id) {
  const parts = Array.isArray(id) ? id : [id];
  return parts.map((part) => encodeURIComponent(String(part))).join(',');
}

/** A query string; a list gives its name several times. */
export function queryString(query) {
  const parameters = query instanceof URLSearchParams ? new URLSearchParams(query) : new URLSearchParams();
  if (!(query instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(query ?? {})) {
      if (value === undefined || value === null) continue;
      for (const one of Array.isArray(value) ? value : [value]) parameters.append(name, String(one));
    }
  }
  const text = parameters.toString();
  return text === '' ? '' : `?${text}`;
}
