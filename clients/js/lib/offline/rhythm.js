// When to talk to the server: at once, when an edit was made, when the stream says that something is new,
// now and then all the same, and after a failure with growing pauses.

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 60_000;

export class Rhythm {
  #sync;
  #listen;
  #tell;
  #poll;
  #first;
  #longest;
  #ending = new AbortController();
  #running = null;
  #wanted = true;
  #failing = false;
  #wake = null;

  constructor({ sync, listen, tell, poll = 30_000, retry: { first = FIRST_PAUSE, longest = LONGEST_PAUSE } = {} }) {
    this.#sync = sync;
    this.#listen = listen;
    this.#tell = tell;
    this.#poll = poll;
    this.#first = first;
    this.#longest = longest;
  }

  /** Begins; settles once the first round is over, however it ended. */
  start() {
    this.#running ??= this.#begin();
    return this.#running.first;
  }

  #begin() {
    let over;
    const first = new Promise((resolve) => (over = resolve));
    const { signal } = this.#ending;
    const online = () => this.wake();
    globalThis.addEventListener?.('online', online, { signal });
    const rounds = this.#rounds(over);
    const stream = this.#listen ? first.then(() => this.#stream()) : null;
    return { first, ended: Promise.all([rounds, stream]) };
  }

  async stop() {
    this.#ending.abort();
    this.wake();
    await this.#running?.ended;
  }

  /** A round is wanted. What only adds to the queue does not hurry a server that just failed. */
  wake({ hurry = true } = {}) {
    this.#wanted = true;
    if (hurry || !this.#failing) this.#wake?.();
  }

  async #rounds(over) {
    const { signal } = this.#ending;
    let failures = 0;
    while (!signal.aborted) {
      this.#wanted = false;
      this.#failing = false;
      let pause = this.#poll;
      try {
        const done = await this.#sync(signal);
        failures = 0;
        this.#tell({ online: true, ...done });
      } catch (error) {
        if (signal.aborted) break;
        failures += 1;
        pause = this.#pause(failures, error);
        this.#tell({ online: error?.status !== undefined && error.status !== 0, error, retryIn: pause });
      }
      over();
      this.#failing = failures > 0;
      await this.#rest(pause);
    }
    over();
  }

  /** Pauses double, with a random part so that clients do not come back all at once. */
  #pause(failures, error) {
    const grown = Math.min(this.#first * 2 ** (failures - 1), this.#longest);
    const asked = (error?.retryAfter ?? 0) * 1000;
    return Math.max(asked, grown / 2 + (Math.random() * grown) / 2);
  }

  #rest(pause) {
    if ((this.#wanted && !this.#failing) || this.#ending.signal.aborted) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, pause);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = null;
        resolve();
      };
    });
  }

  async #stream() {
    const { signal } = this.#ending;
    let failures = 0;
    while (!signal.aborted) {
      try {
        const opened = () => (failures = 0);
        await this.#listen({ signal, opened, wake: () => this.wake() });
      } catch (error) {
        if (signal.aborted) return;
        failures += 1;
      }
      // Whatever happened while it was down is pulled.
      if (!signal.aborted && failures === 0) this.wake();
      await sleep(this.#pause(Math.max(failures, 1)), signal);
    }
  }
}

function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener('abort', end, { once: true });
  });
}
