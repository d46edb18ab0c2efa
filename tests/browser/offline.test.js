// The offline queue in a browser: edits outlive the page, and tabs share them.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { after, afterEach, before, test } from 'node:test';

import { api, newInvoice, openWindow, startBrowser, startServer } from './support.js';

const CLIENT = new URL('../../clients/js/', import.meta.url);
const PAGE = `<!doctype html><html lang="en"><title>Offline</title><script type="module">
  import { Offline } from './client/offline.js';
  window.app = await Offline.open({ name: 'test', resources: ['invoices'], actor: 'mina' });
  window.invoices = app.resource('invoices');
  // Asked whenever the app tells of something.
  window.until = async (holds) => {
    for (;;) {
      const news = new Promise((resolve) => app.subscribe(resolve));
      if (await holds()) return;
      await news;
    }
  };
  document.body.append('ready');
</script>`;

let server;
let browser;
let window;
before(async () => {
  server = await startServer();
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});
afterEach(async () => {
  const problems = window.problems.filter((problem) => !problem.includes('net::ERR_FAILED'));
  await window.context().close();
  assert.deepEqual(problems, []);
});

/** A tab with the app; the first one opens the window. */
async function tab({ beside } = {}) {
  const page = beside ? await beside.context().newPage() : await openWindow(browser);
  if (!beside) window = page;
  await page.route('**/app/**', async (route) => {
    const file = new URL(route.request().url()).pathname.split('/client/')[1];
    if (file) await route.fulfill({ contentType: 'text/javascript', body: await readFile(new URL(file, CLIENT)) });
    else await route.fulfill({ contentType: 'text/html', body: PAGE });
  });
  await load(page);
  return page;
}

async function load(page) {
  await page.goto(`${server.base}/app/`);
  await page.getByText('ready').waitFor();
}

const API = '**/api/**';
const offline = (page) => page.route(API, (route) => route.abort());
const online = (page) => page.unroute(API);

const stored = async (id) => (await api(server.base, 'GET', `/invoices/${id}`)).data;
const versions = async (id) => (await api(server.base, 'GET', `/invoices/${id}/history`)).data.length;

/** Every row here is the server's. */
async function converged(page) {
  const { data } = await api(server.base, 'GET', '/invoices?limit=1000');
  const here = await page.evaluate(async () => (await invoices.all()).map(({ id, version, pending }) => [id, version, pending]));
  const there = data.map(({ id, version }) => [id, version, 0]);
  assert.deepEqual(here.sort(), there.sort());
}

test('edits made offline outlive the page and reach the server once', async () => {
  const invoice = await newInvoice(server.base);
  const page = await tab();
  await page.evaluate(() => app.sync());
  await offline(page);
  const made = randomUUID();
  await page.evaluate(
    async ([id, made]) => {
      await invoices.patch(id, { memo: 'offline' });
      await invoices.patch(id, { amount: 12 });
      await invoices.create({ id: made, number: made, customer: 'Made offline', amount: 1 });
    },
    [invoice.id, made],
  );
  assert.equal(await page.evaluate(() => app.sync().catch(({ code }) => code)), 'NETWORK_ERROR');
  await load(page);
  assert.equal(await page.evaluate(() => app.pending()), 3);
  assert.equal(await page.evaluate(async (id) => (await invoices.get(id)).data.memo, invoice.id), 'offline');
  await api(server.base, 'PATCH', `/invoices/${(await newInvoice(server.base)).id}`, { body: { memo: 'by tom' } });

  await online(page);
  await page.evaluate(() => app.sync());
  assert.equal(await page.evaluate(() => app.pending()), 0);
  const row = await stored(invoice.id);
  assert.deepEqual([row.memo, Number(row.amount), row.version], ['offline', 12, 3]);
  assert.equal((await stored(made)).customer, 'Made offline');
  await converged(page);
  // An answer that got lost: the page was closed before it came.
  await page.route(API, async (route) => {
    await route.fetch();
    await route.abort();
  });
  await page.evaluate((id) => invoices.patch(id, { memo: 'answer lost' }), invoice.id);
  await page.evaluate(() => app.sync().catch(() => {}));
  await page.unroute(API);
  await load(page);
  await page.evaluate(() => app.sync());
  await page.evaluate(() => app.sync());
  assert.equal(await versions(invoice.id), 4);
  await converged(page);
});

test('two tabs share one queue, and each tells the other', async () => {
  const invoice = await newInvoice(server.base);
  const one = await tab();
  const two = await tab({ beside: one });
  await one.evaluate(() => app.sync());
  const told = two.evaluate(
    (id) => new Promise((resolve) => app.subscribe(({ type, ids }) => type === 'rows' && ids.includes(id) && resolve(true))),
    invoice.id,
  );
  await two.evaluate(() => 0);
  await one.evaluate((id) => invoices.patch(id, { memo: 'from one' }), invoice.id);
  assert.ok(await told);
  await two.evaluate((id) => invoices.patch(id, { memo: 'from two' }), invoice.id);
  await Promise.all([one, two, one, two].map((page) => page.evaluate(() => app.sync())));
  assert.equal(await versions(invoice.id), 3);
  assert.equal((await stored(invoice.id)).memo, 'from two');
  assert.deepEqual(await one.evaluate(async () => (await app.problems()).length), 0);
  await converged(one);
});

test('it keeps in step by itself', async () => {
  const invoice = await newInvoice(server.base);
  const page = await tab();
  await page.evaluate(() => app.start({ poll: 600_000 }));
  await api(server.base, 'PATCH', `/invoices/${invoice.id}`, { body: { memo: 'by tom' } });
  await page.evaluate((id) => until(async () => (await invoices.get(id))?.version === 2), invoice.id);
  await page.evaluate((id) => invoices.patch(id, { amount: 3 }), invoice.id);
  await page.evaluate(() => until(async () => (await app.pending()) === 0));
  assert.equal(Number((await stored(invoice.id)).amount), 3);
  await page.evaluate(() => app.close());
});

test('the app of docs/offline.md', async (t) => {
  const text = await readFile(new URL('../../docs/offline.md', import.meta.url), 'utf8');
  const block = (name, language) => text.split(`\`${name}\`:\n\`\`\`${language}\n`)[1].split('\n```')[0];
  const files = {
    '/favicon.ico': ['image/x-icon', ''],
    '/': ['text/html', block('index.html', 'html')],
    '/office.js': ['text/javascript', block('office.js', 'js').replace('http://127.0.0.1:8080', server.base)],
  };
  const page = await openWindow(browser);
  window = page;
  const folder = createServer(async ({ url }, response) => {
    const [type, body] = files[url] ?? ['text/javascript', await readFile(new URL(url.split('/counterfoil/')[1], CLIENT))];
    response.setHeader('content-type', type).end(body);
  });
  t.after(() => folder.close());
  await once(folder.listen(0, '127.0.0.1'), 'listening');
  await page.goto(`http://127.0.0.1:${folder.address().port}/`);
  const says = (words) => page.locator('#status', { hasText: words }).waitFor();
  await says('In step');
  await offline(page);
  await page.getByLabel('Customer').fill('Made in a tunnel');
  await page.getByRole('button', { name: 'Add an invoice' }).click();
  const made = page.locator('#invoices li', { hasText: 'Made in a tunnel' });
  await made.getByText('(waits)').waitFor();
  await made.getByRole('button', { name: '+10' }).click();
  await made.getByText('10 (waits)').waitFor();
  await says('Offline');
  await online(page);
  await page.evaluate(() => dispatchEvent(new Event('online')));
  await made.getByText('Made in a tunnel: 10 +10Delete', { exact: true }).waitFor();

  const { data } = await api(server.base, 'GET', '/invoices?customer=eq.Made%20in%20a%20tunnel');
  assert.deepEqual(data.map(({ amount, version }) => [Number(amount), version]), [[10, 2]]);
  await offline(page);
  await made.getByRole('button', { name: '+10' }).click();
  await made.getByText('20 (waits)').waitFor();
  await api(server.base, 'PATCH', `/invoices/${data[0].id}`, { body: { amount: 99 } });
  await online(page);
  await page.evaluate(() => dispatchEvent(new Event('online')));
  await page.locator('#problems li', { hasText: 'amount' }).getByRole('button', { name: 'Keep mine' }).click();
  await made.getByText('Made in a tunnel: 20 +10Delete', { exact: true }).waitFor();
  assert.equal(Number((await stored(data[0].id)).amount), 20);
});
