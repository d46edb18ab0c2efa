// The walk through the demo: what people at two windows see and do.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { api, newInvoice, openWindow, picture, soundness, startBrowser, startServer } from './support.js';

let server;
let browser;
let windows = [];

before(async () => {
  server = await startServer();
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});
afterEach(async () => {
  const problems = windows.flatMap((page) => page.problems);
  await Promise.all(windows.map((page) => page.context().close()));
  windows = [];
  assert.deepEqual(problems, []);
});

async function at(invoice, actor, options) {
  const page = await openWindow(browser, { actor, ...options });
  windows.push(page);
  await page.goto(`${server.base}/demo#${invoice.id}`);
  await page.getByText(`version ${invoice.version}`, { exact: true }).waitFor();
  return page;
}

async function two(values, options) {
  const invoice = await newInvoice(server.base, values);
  return { invoice, mina: await at(invoice, 'Mina', options), tom: await at(invoice, 'Tom', options) };
}

const stored = async ({ id }) => (await api(server.base, 'GET', `/invoices/${id}`)).data;
const field = (page, name) => page.locator('#invoice').getByLabel(name, { exact: true });
const choice = (page, name) => page.locator('.choice', { has: page.locator('legend', { hasText: name }) });
const save = (page) => page.getByRole('button', { name: 'Save', exact: true }).click();
/** The status line begins so. */
const says = (page, text) => {
  const begins = new RegExp(`^${text.replace(/[.()]/g, '\\$&')}`);
  return page.locator('#status').filter({ hasText: begins }).waitFor();
};
const focused = (page) => page.evaluate(() => document.activeElement.id);

async function conflicted(page) {
  await page.locator('#conflict').waitFor();
  assert.equal(await focused(page), 'conflict-title');
  assert.match(await page.title(), /^Conflict – /);
  assert.deepEqual(await soundness(page), []);
}

test('read, edit, save', async () => {
  const { invoice, mina } = await two();
  assert.deepEqual(await soundness(mina), []);
  await picture(mina, 'demo-form');
  await field(mina, 'Amount').fill('1250.50');
  await field(mina, 'Memo').fill('Second oven');
  await save(mina);
  await says(mina, 'Saved. This is version 2.');
  const row = await stored(invoice);
  assert.deepEqual([row.amount, row.memo, row.version], [1250.5, 'Second oven', 2]);
  await field(mina, 'Memo').fill('');
  await save(mina);
  await says(mina, 'Saved. This is version 3.');
  assert.equal((await stored(invoice)).memo, null);
  await save(mina);
  await says(mina, 'Nothing to save.');
});

test('different fields: one click saves both', async () => {
  const { invoice, mina, tom } = await two();
  await field(mina, 'Memo').fill('Paid in part');
  await save(mina);
  await says(mina, 'Saved');
  await field(tom, 'Due on').fill('2026-11-01');
  await save(tom);
  await conflicted(tom);
  assert.match(await tom.locator('#conflict-title').textContent(), /^Mina saved this invoice .* \(version 2\)\.$/);
  assert.equal(await tom.locator('#conflict-text').textContent(), 'You started from version 1. Nothing of yours is lost.');
  assert.equal(await tom.locator('#decide').isVisible(), false);
  await picture(tom, 'demo-one-click');
  await tom.getByRole('button', { name: 'Save both changes' }).click();
  await says(tom, "Combined with Mina's change to Memo. This is version 3.");
  assert.equal(await field(tom, 'Memo').inputValue(), 'Paid in part');
  assert.equal(await focused(tom), 'status');
  const row = await stored(invoice);
  assert.deepEqual([row.due_on, row.memo, row.version], ['2026-11-01', 'Paid in part', 3]);
});

test('the same field: side by side, choose, save', async () => {
  const { invoice, mina, tom } = await two();
  await field(mina, 'Amount').fill('1100');
  await field(mina, 'Memo').fill('Paid in part');
  await save(mina);
  await says(mina, 'Saved');
  await field(tom, 'Amount').fill('1250');
  await field(tom, 'Due on').fill('2026-11-01');
  await save(tom);
  await conflicted(tom);
  const amount = choice(tom, 'Amount');
  assert.deepEqual(await amount.locator('td').allTextContents(), ['1000', '1100', '1250']);
  assert.equal(await amount.locator('input:checked').count(), 0, 'a clash has no preset');
  assert.deepEqual(await choice(tom, 'Due on').locator('td').allTextContents(), ['October 28, 2026', 'October 28, 2026', 'November 1, 2026']);
  await picture(tom, 'demo-clash');

  await tom.getByRole('button', { name: 'Save merged version' }).click();
  assert.equal(await tom.locator('#conflict-error').textContent(), 'Please decide about: Amount.');
  assert.equal(await tom.evaluate(() => document.activeElement.name), 'choice-amount');
  assert.equal((await stored(invoice)).version, 2, 'nothing was sent');

  await amount.getByLabel('Edit', { exact: true }).check();
  const edited = amount.getByLabel('Amount, edited');
  assert.equal(await edited.inputValue(), '1250', 'the input begins with what was typed');
  await edited.fill('12x');
  await tom.getByRole('button', { name: 'Save merged version' }).click();
  assert.match(await amount.locator('.error').textContent(), /not a number/);
  await edited.fill('1175.25');
  await picture(tom, 'demo-clash-decided');
  await tom.getByRole('button', { name: 'Save merged version' }).click();
  await says(tom, 'Saved with your decisions. This is version 3.');
  const row = await stored(invoice);
  assert.deepEqual([row.amount, row.due_on, row.memo], [1175.25, '2026-11-01', 'Paid in part']);
});

test('what combines by itself can be overruled', async () => {
  const { invoice, mina, tom } = await two();
  await field(mina, 'Memo').fill('Paid in part');
  await save(mina);
  await says(mina, 'Saved');
  await field(tom, 'Customer').fill('Harbor Bakery');
  await save(tom);
  await conflicted(tom);
  await choice(tom, 'Memo').getByLabel('Use mine').check();
  await tom.getByRole('button', { name: 'Save merged version' }).click();
  await says(tom, 'Saved with your decisions. This is version 3.');
  const row = await stored(invoice);
  assert.deepEqual([row.customer, row.memo], ['Harbor Bakery', null]);
});

test('a second conflict while deciding keeps the decisions', async () => {
  const { invoice, mina, tom } = await two();
  await field(mina, 'Amount').fill('1100');
  await field(mina, 'Customer').fill('Harbour Bakery Ltd');
  await save(mina);
  await says(mina, 'Saved');
  await field(tom, 'Amount').fill('1250');
  await field(tom, 'Customer').fill('Harbor Bakery');
  await field(tom, 'Memo').fill('Typed by Tom');
  await save(tom);
  await conflicted(tom);
  await choice(tom, 'Amount').getByLabel('Use mine').check();
  await choice(tom, 'Customer').getByLabel('Use theirs').check();

  await field(mina, 'Amount').fill('1150');
  await save(mina);
  await says(mina, 'Saved. This is version 3.');

  await tom.getByRole('button', { name: 'Save merged version' }).click();
  await tom.locator('#conflict-title', { hasText: 'saved this invoice again' }).waitFor();
  assert.equal(await focused(tom), 'conflict-title');
  const asked = await tom.locator('#decide-fields legend').allTextContents();
  assert.deepEqual(asked, ['Amount'], 'only what moved again is asked again');
  assert.deepEqual(await choice(tom, 'Amount').locator('td').allTextContents(), ['1100', '1150', '1250']);
  assert.ok(await choice(tom, 'Memo').getByLabel('Use mine').isChecked());
  await picture(tom, 'demo-second-conflict');
  await choice(tom, 'Amount').getByLabel('Use mine').check();
  await tom.getByRole('button', { name: 'Save merged version' }).click();
  await says(tom, 'Saved with your decisions. This is version 4.');
  const row = await stored(invoice);
  assert.deepEqual([row.amount, row.customer, row.memo], [1250, 'Harbour Bakery Ltd', 'Typed by Tom']);
});

test('deleted under an editor: restore with what was typed', async () => {
  const { invoice, mina, tom } = await two();
  await field(tom, 'Memo').fill('Typed by Tom');
  await mina.getByRole('button', { name: 'Delete' }).click();
  await mina.getByRole('heading', { name: /was deleted/ }).waitFor();
  assert.equal(await focused(mina), 'deleted-title');
  await picture(mina, 'demo-deleted');
  await save(tom);
  await conflicted(tom);
  assert.match(await tom.locator('#conflict-title').textContent(), /^Mina deleted this invoice/);
  await picture(tom, 'demo-deletion');
  await tom.getByRole('button', { name: 'Restore with my changes' }).click();
  await says(tom, 'The invoice is back, with your changes. This is version 3.');
  const row = await stored(invoice);
  assert.deepEqual([row.memo, row.amount, row.version], ['Typed by Tom', 1000, 3]);
  await mina.getByRole('button', { name: 'Bring it back' }).click();
  await conflicted(mina);
  assert.match(await mina.locator('#conflict-title').textContent(), /saved this invoice/);
});

test('deleted under an editor: accept', async () => {
  const { invoice, mina, tom } = await two();
  await field(tom, 'Memo').fill('Typed by Tom');
  await mina.getByRole('button', { name: 'Delete' }).click();
  await mina.getByRole('button', { name: 'Bring it back' }).waitFor();
  await save(tom);
  await conflicted(tom);
  await tom.getByRole('button', { name: 'Accept the deletion' }).click();
  await tom.getByRole('heading', { name: /stays deleted/ }).waitFor();
  await assert.rejects(stored(invoice), /410/);
  await mina.getByRole('button', { name: 'Bring it back' }).click();
  await says(mina, 'The invoice is back.');
});

test('deleting what somebody saved meanwhile asks first', async () => {
  const { invoice, mina, tom } = await two();
  await field(mina, 'Amount').fill('1100');
  await save(mina);
  await says(mina, 'Saved');
  await tom.getByRole('button', { name: 'Delete' }).click();
  await conflicted(tom);
  assert.match(await tom.locator('#conflict-text').textContent(), /Nothing was deleted/);
  assert.equal((await stored(invoice)).version, 2);
  await tom.getByRole('button', { name: 'Delete this version' }).click();
  await tom.getByRole('heading', { name: /was deleted/ }).waitFor();
  await assert.rejects(stored(invoice), /410/);
});

test('a notice before the save, which touches nothing; then compare', async () => {
  const { invoice, mina, tom } = await two();
  await field(tom, 'Amount').fill('1250');
  await field(mina, 'Amount').fill('1100');
  await save(mina);
  await says(mina, 'Saved');
  await tom.locator('#notice').waitFor();
  assert.equal(await tom.locator('#notice-text').textContent(), 'Mina saved this invoice (version 2). You see version 1.');
  assert.equal(await field(tom, 'Amount').inputValue(), '1250');
  await picture(tom, 'demo-notice');
  await tom.getByRole('button', { name: 'Compare with mine' }).click();
  await conflicted(tom);
  assert.equal((await stored(invoice)).version, 2);
  await choice(tom, 'Amount').getByLabel('Use theirs').check();
  await tom.getByRole('button', { name: 'Save merged version' }).click();
  await tom.locator('#invoice').waitFor();
  assert.equal((await stored(invoice)).amount, 1100);
  assert.equal(await mina.locator('#notice').isVisible(), false, 'what one saves oneself is no news');
});

test('what the server does not allow stands at its field', async () => {
  const { mina } = await two();
  await field(mina, 'Amount').fill('-5');
  await save(mina);
  await mina.locator('#amount-error', { hasText: /amount/ }).waitFor();
  assert.equal(await focused(mina), 'amount');
  assert.equal(await field(mina, 'Amount').inputValue(), '-5');
  assert.equal(await field(mina, 'Amount').getAttribute('aria-invalid'), 'true');
  await picture(mina, 'demo-invalid');
  await field(mina, 'Amount').fill('a lot');
  await save(mina);
  assert.match(await mina.locator('#amount-error').textContent(), /not a number/);
  await field(mina, 'Amount').fill('5');
  await save(mina);
  await says(mina, 'Saved');
  assert.equal(await mina.locator('#amount-error').textContent(), '');
});

test('a combination that is not allowed is put right in the form', async () => {
  for (const button of ['Save both changes', 'Save merged version']) {
    const { invoice, mina, tom } = await two();
    await field(mina, 'Memo').fill('x');
    await save(mina);
    await says(mina, 'Saved');
    await field(tom, 'Amount').fill('-5');
    await save(tom);
    await conflicted(tom);
    await tom.getByRole('button', { name: button }).click();
    await tom.locator('#amount-error', { hasText: /amount/ }).waitFor();
    assert.equal(await field(tom, 'Amount').inputValue(), '-5');
    assert.equal(await field(tom, 'Memo').inputValue(), 'x');
    await field(tom, 'Amount').fill('50');
    await save(tom);
    await says(tom, 'Saved');
    assert.equal((await stored(invoice)).amount, 50);
  }
});

test('with the keyboard alone', async () => {
  const { invoice, mina, tom } = await two();
  await field(mina, 'Amount').fill('1100');
  await save(mina);
  await says(mina, 'Saved');
  await field(tom, 'Amount').fill('1250');
  await field(tom, 'Amount').press('Enter');
  await conflicted(tom);
  await tom.keyboard.press('Tab');
  assert.equal(await tom.evaluate(() => document.activeElement.name), 'choice-amount');
  await tom.keyboard.press('Space');
  await tom.keyboard.press('ArrowRight');
  await tom.keyboard.press('Enter');
  await says(tom, 'Saved with your decisions. This is version 3.');
  assert.equal((await stored(invoice)).amount, 1250);
});

test('dark, and on a small screen', async () => {
  const { mina, tom } = await two({}, { colorScheme: 'dark', viewport: { width: 360, height: 740 } });
  await picture(mina, 'demo-form-dark-small');
  await field(mina, 'Amount').fill('1100');
  await field(mina, 'Memo').fill('Paid in part, the rest follows when the second oven stands in the bakery');
  await save(mina);
  await says(mina, 'Saved');
  await field(tom, 'Amount').fill('1250');
  await save(tom);
  await conflicted(tom);
  await picture(tom, 'demo-clash-dark-small');
  const overflow = await tom.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
});

test('the pages come with their type, a policy and a tag', async () => {
  const page = await fetch(`${server.base}/demo`);
  assert.equal(page.status, 200);
  assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8');
  assert.match(page.headers.get('content-security-policy'), /default-src 'none'; script-src 'self'/);
  const again = await fetch(`${server.base}/demo`, { headers: { 'if-none-match': page.headers.get('etag') } });
  assert.equal(again.status, 304);
  const client = await fetch(`${server.base}/demo/counterfoil.js`);
  assert.equal(client.headers.get('content-type'), 'text/javascript; charset=utf-8');
});

test('without its demo tables, dev serves no demo', async () => {
  const bare = await startServer('--no-demo');
  assert.equal((await fetch(`${bare.base}/demo`)).status, 404);
  await bare.stop();
});
