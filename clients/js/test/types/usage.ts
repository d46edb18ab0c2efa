// Compiled, never run: how the types are meant to be used.
import { Counterfoil, CounterfoilError, Decimal, UndecidedError, number, polling } from '../../counterfoil.js';

interface Invoice {
  id: string;
  amount: number | bigint | Decimal;
  memo: string | null;
  version: number;
}

const cf = new Counterfoil({ base: 'http://127.0.0.1:8080', actor: () => 'mina', source: polling({ interval: 1000 }) });
const invoices = cf.resource<Invoice>('invoices');

export async function edit(id: string): Promise<number | null> {
  const invoice = await invoices.read(id);
  invoice.data.amount = number('12.50');
  // @ts-expect-error: there is no such field
  invoice.data.amonut = 1;
  const result = await invoice.save({ onConflict: 'fail' });
  if (result.ok) return result.record.version;
  const { conflict } = result;
  for (const { field, verdict, base, yours, theirs } of conflict.fields) {
    console.log(field, verdict, base, yours, theirs, conflict.changedBy);
  }
  // @ts-expect-error: a choice is 'mine', 'theirs' or a value
  conflict.resolve({ amount: 'ours' });
  // @ts-expect-error: a memo is a text
  conflict.resolve({ memo: { value: 1 } });
  if (conflict.mergeable) await conflict.saveMerged();
  const resolved = conflict.resolve({ amount: 'mine', memo: { value: null } });
  const again = await resolved.save();
  return again.ok ? again.record.version : null;
}

export async function walk(): Promise<void> {
  for await (const record of invoices.list({ amount: 'gte.100', limit: 10 })) console.log(record.data.memo);
  for await (const { version, changed } of invoices.history('a')) console.log(version, changed.includes('memo'));
  const created = await invoices.create({ amount: 1 });
  console.log(created.record.version);
  const taken = await invoices.create({ amount: 1 }, { id: 'a' });
  // @ts-expect-error: it may be a conflict
  console.log(taken.record.version);
  const loose = await cf.resource('order_details', { key: ['order_id', 'product_id'] }).read([10248, 11]);
  const stop = loose.watch(({ deleted, version }) => console.log(deleted, version));
  stop();
}

export function worded(error: unknown): string {
  if (error instanceof UndecidedError) return error.fields.join();
  if (error instanceof CounterfoilError) return `${error.status} ${error.code} ${error.field ?? ''}`;
  throw error;
}
