// Compiled, never run: how the types of the offline queue are meant to be used.
import { CounterfoilError } from '../../counterfoil.js';
import { Offline, indexedDBStore, memoryStore } from '../../offline.js';

interface Invoice {
  id: string;
  amount: number;
  memo: string | null;
  version: number;
}

export async function work(): Promise<void> {
  const app = await Offline.open({ name: 'office', resources: { invoices: {}, order_details: { key: ['order_id', 'product_id'] } } });
  const invoices = app.resource<Invoice>('invoices');
  const stop = app.subscribe((news) => {
    if (news.type === 'rows') console.log(news.resource, news.ids);
    if (news.type === 'status' && !news.online) console.log(news.retryIn, news.error instanceof CounterfoilError);
  });
  await app.start({ poll: 60_000, retry: { first: 500 } });
  const id = await invoices.create({ amount: 1 });
  await invoices.patch(id, { memo: null }, { onConflict: 'merge' });
  // @ts-expect-error: there is no such field
  await invoices.patch(id, { amonut: 1 });
  const row = await invoices.get(id);
  console.log(row?.data.amount, row?.pending, await app.pending());
  for (const problem of await app.problems()) {
    if (problem.conflict?.mergeable) await problem.saveMerged();
    else if (problem.status === 'conflict') await problem.resolve({ amount: 'mine', memo: { value: 'x' } });
    else if (problem.operation === 'remove') await problem.remove();
    else await problem.discard();
  }
  // @ts-expect-error: it is opened with `open`
  new Offline({ resources: [] });
  stop();
  await app.close();
}

export const stores = [memoryStore(), indexedDBStore('office')];
