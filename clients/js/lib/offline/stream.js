// Server-sent events over `fetch`, which takes headers and is there in Node. What an event holds is not
// looked at: it says that there is something to pull.

/** Calls `wake` at each event until the stream ends; throws where it cannot be opened. */
export async function listen(wire, path, { signal, wake, opened }) {
  const response = await wire.open(path, { signal, accept: 'text/event-stream' });
  opened();
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const end = text.lastIndexOf('\n\n');
    if (end < 0) {
      // A long event is waited for; of its text only the end matters.
      if (text.includes('\ndata:') || text.startsWith('data:')) text = `data:${text.slice(-1)}`;
      continue;
    }
    // A heartbeat is a comment: it begins with a colon.
    if (/^(data|event):/m.test(text.slice(0, end))) wake();
    text = text.slice(end + 2);
  }
}
