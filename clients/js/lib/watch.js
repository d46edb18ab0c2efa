// Where a record learns that somebody else saved it. A source has one method,
// `subscribe(record, listener)`, which gives the function that ends it; polling is one such source,
// a stream of events another.

/** Asks for the headers of the record now and then; a page that nobody sees asks nothing. */
export function polling({ interval = 5000 } = {}) {
  return {
    subscribe(record, listener) {
      let timer;
      let ended = false;
      const ending = new AbortController();
      const look = async () => {
        try {
          if (!globalThis.document?.hidden) {
            const news = await record.peek({ signal: ending.signal });
            if (news && !ended) await listener(news);
          }
        } catch (error) {
          // No answer is no news; the next look will tell. An error of the listener is its own.
          if (error?.name !== 'CounterfoilError' && error?.name !== 'AbortError') throw error;
        } finally {
          if (!ended) timer = setTimeout(look, interval);
        }
      };
      timer = setTimeout(look, interval);
      return () => {
        ended = true;
        clearTimeout(timer);
        ending.abort();
      };
    },
  };
}
