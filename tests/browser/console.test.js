// The console in a browser: two people, one invoice. Each walk runs with scripts and without.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { api, newInvoice, openWindow, picture, soundness, startBrowser, startServer } from './support.js';

let server;
let browser;

before(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser()]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

const record = ({ id }) => `${server.base}/console/invoices/${id}`;

/** A window of a person who gave their name to the console. */
async function person(name, options = {}) {
  const page = await openWindow(browser, options);
  await page.context().addCookies([{ name: 'counterfoil_you', value: name, url: `${server.base}/console` }]);
  return page;
}

async function open(page, invoice) {
  await page.goto(record(invoice));
}

async function fill(page, values) {
  for (const [name, value] of Object.entries(values)) await page.fill(`[name="f.${name}"]`, value);
}

async function press(page, name) {
  const [response] = await Promise.all([
    page.waitForResponse((answer) => answer.request().isNavigationRequest() && answer.request().method() === 'POST'),
    page.getByRole('button', { name, exact: true }).first().click(),
  ]);
  await page.waitForLoadState();
  return response.status();
}

const decide = (page, label, choice) =>
  page.getByRole('group', { name: label, exact: true }).getByRole('radio', { name: choice }).check();

const stored = async ({ id }) => (await api(server.base, 'GET', `/invoices/${id}`)).data;

const heading = (page) => page.getByRole('heading', { level: 1 }).innerText();

/** The page is sound for a screen reader, and nothing went wrong in it. */
async function sound(page) {
  assert.deepEqual(await soundness(page), []);
  assert.deepEqual(page.problems, []);
}

for (const javaScriptEnabled of [true, false]) {
  describe(javaScriptEnabled ? 'with scripts' : 'without scripts', () => {
    test('different fields: one click saves both', async () => {
      const invoice = await newInvoice(server.base, { memo: 'first' });
      const [mina, otto] = [await person('mina', { javaScriptEnabled }), await person('otto', { javaScriptEnabled })];
      await open(mina, invoice);
      await open(otto, invoice);
      await fill(mina, { memo: 'paid in part' });
      assert.equal(await press(mina, 'Save'), 303);
      assert.match(await mina.getByRole('status').first().innerText(), /Saved as version 2\./);
      await fill(otto, { amount: '1250' });
      assert.equal(await press(otto, 'Save'), 409);
      assert.match(await heading(otto), /changed while you were editing/);
      assert.match(await otto.title(), /^Conflict –/);
      assert.match(await otto.getByRole('alert').innerText(), /mina saved version 2.*You started from version 1/s);
      assert.equal(await otto.getByText('Needs your decision').count(), 0);
      assert.equal(await press(otto, 'Save both changes'), 303);
      assert.match(await otto.getByRole('status').first().innerText(), /Both changes are saved as version 3\./);
      const { amount, memo, version } = await stored(invoice);
      assert.deepEqual([amount, memo, version], [1250, 'paid in part', 3]);
      await otto.getByRole('link', { name: 'See the history' }).click();
      assert.match(await otto.locator('table.versions').innerText(), /Merged\s+from 1 and 2/);
      for (const page of [mina, otto]) await page.context().close();
    });

    test('the same field: side by side, choose, save', async () => {
      const invoice = await newInvoice(server.base, { memo: 'Second oven, first instalment' });
      const [mina, otto] = [await person('mina', { javaScriptEnabled }), await person('otto', { javaScriptEnabled })];
      await open(mina, invoice);
      await open(otto, invoice);
      await fill(mina, { amount: '1100', memo: 'Second oven, second instalment' });
      await press(mina, 'Save');
      await fill(otto, { amount: '1250', memo: 'Second oven, last instalment', due_on: '2026-11-01' });
      assert.equal(await press(otto, 'Save'), 409);
      const focused = await otto.evaluate(() => document.activeElement.tagName);
      assert.equal(focused, 'H1', 'the conflict is read first');
      const amount = otto.getByRole('group', { name: 'Amount', exact: true });
      assert.match(await amount.innerText(), /Original.*1000\.00.*Saved by mina.*1100\.00.*Yours.*1250\.00/s);
      assert.equal(await otto.locator('#needs ~ fieldset input[type=radio]:checked').count(), 0, 'no preset');
      assert.equal(await press(otto, 'Save the result'), 422);
      assert.match(await otto.getByRole('alert').nth(1).innerText(), /Still to be decided\s+Amount\s+Memo/);
      await decide(otto, 'Amount', 'Use theirs');
      await decide(otto, 'Memo', 'Edit');
      await otto.getByRole('group', { name: 'Memo', exact: true }).getByRole('textbox').fill('Second and last instalment');
      await sound(otto);
      assert.equal(await press(otto, 'Save the result'), 303);
      const row = await stored(invoice);
      assert.deepEqual(
        [row.amount, row.memo, row.due_on, row.version],
        [1100, 'Second and last instalment', '2026-11-01', 3],
      );
      for (const page of [mina, otto]) await page.context().close();
    });

    test('a deletion under an editor: restore with the changes, or accept it', async () => {
      for (const accepts of [false, true]) {
        const invoice = await newInvoice(server.base);
        const [mina, otto] = [await person('mina', { javaScriptEnabled }), await person('otto', { javaScriptEnabled })];
        await open(otto, invoice);
        await fill(otto, { amount: '1250' });
        await open(mina, invoice);
        await mina.getByRole('link', { name: 'Delete', exact: true }).click();
        assert.equal(await press(mina, 'Delete'), 303);
        assert.equal(await press(otto, 'Save'), 410);
        assert.match(await heading(otto), /was deleted while you were editing/);
        if (accepts) {
          await otto.getByRole('link', { name: 'Accept the deletion' }).click();
          assert.equal(await heading(otto), 'Invoices');
          await mina.getByRole('link', { name: 'See the deleted row' }).click();
          assert.match(await heading(mina), /was deleted/);
        } else {
          assert.equal(await press(otto, 'Restore with my changes'), 303);
          const { amount, version } = await stored(invoice);
          assert.deepEqual([amount, version], [1250, 3]);
        }
        for (const page of [mina, otto]) await page.context().close();
      }
    });

    test('a second conflict during the merge keeps what still holds', async () => {
      const invoice = await newInvoice(server.base, { memo: 'first' });
      const otto = await person('otto', { javaScriptEnabled });
      await open(otto, invoice);
      await fill(otto, { amount: '1250', memo: 'his' });
      const saves = (body) => api(server.base, 'PATCH', `/invoices/${invoice.id}`, { body, headers: { 'x-actor': 'mina' } });
      await saves({ amount: 1100, memo: 'hers' });
      assert.equal(await press(otto, 'Save'), 409);
      await decide(otto, 'Amount', 'Edit');
      await otto.getByRole('group', { name: 'Amount', exact: true }).getByRole('textbox').fill('1175');
      await decide(otto, 'Memo', 'Use mine');
      await saves({ memo: 'hers again' });
      assert.equal(await press(otto, 'Save the result'), 409);
      assert.match(await heading(otto), /changed again/);
      const amount = otto.getByRole('group', { name: 'Amount', exact: true });
      assert.equal(await amount.getByRole('textbox').inputValue(), '1175');
      assert.ok(await amount.getByRole('radio', { name: 'Edit' }).isChecked());
      const memo = otto.getByRole('group', { name: 'Memo', exact: true });
      assert.equal(await memo.getByRole('radio', { checked: true }).count(), 0);
      assert.match(await memo.innerText(), /moved again.*hers again/s);
      await decide(otto, 'Memo', 'Use mine');
      assert.equal(await press(otto, 'Save the result'), 303);
      const row = await stored(invoice);
      assert.deepEqual([row.amount, row.memo, row.version], [1175, 'his', 4]);
      await otto.context().close();
    });

    test('a refused form keeps every word', async () => {
      const invoice = await newInvoice(server.base);
      const otto = await person('otto', { javaScriptEnabled });
      await open(otto, invoice);
      await fill(otto, { amount: '12 apples', memo: 'two\nlines' });
      assert.equal(await press(otto, 'Save'), 422);
      assert.equal(await otto.inputValue('[name="f.amount"]'), '12 apples');
      assert.equal(await otto.inputValue('[name="f.memo"]'), 'two\nlines');
      await otto.getByRole('alert').getByRole('link').click();
      assert.match(otto.url(), /#f\d+$/);
      await fill(otto, { amount: '12' });
      assert.equal(await press(otto, 'Save'), 303);
      assert.equal((await stored(invoice)).memo, 'two\nlines');
      await otto.context().close();
    });

    test('an older version comes back', async () => {
      const invoice = await newInvoice(server.base, { memo: 'first' });
      await api(server.base, 'PATCH', `/invoices/${invoice.id}`, { body: { memo: 'second', amount: 7 } });
      const otto = await person('otto', { javaScriptEnabled });
      await otto.goto(`${record(invoice)}/history`);
      assert.match(await otto.locator('#compare').innerText(), /Version 1 compared with version 2/);
      assert.equal(await press(otto, 'Restore this version 1'), 303);
      const { amount, memo, version } = await stored(invoice);
      assert.deepEqual([amount, memo, version], [1000, 'first', 3]);
      await otto.context().close();
    });
  });
}

test('a quiet notice tells of a save, and the form stays as it is', async () => {
  const invoice = await newInvoice(server.base);
  const otto = await person('otto');
  await open(otto, invoice);
  await fill(otto, { amount: '1250' });
  const headers = { 'x-actor': 'mina' };
  await api(server.base, 'PATCH', `/invoices/${invoice.id}`, { body: { memo: 'hers' }, headers });
  const notice = otto.locator('[data-events]');
  await notice.getByText('Version 2 was saved by mina').waitFor();
  assert.equal(await otto.inputValue('[name="f.amount"]'), '1250');
  assert.equal(await otto.inputValue('[name="f.memo"]'), '');
  assert.equal(await notice.getAttribute('aria-live'), 'polite');
  const [comparison] = await Promise.all([
    otto.context().waitForEvent('page'),
    notice.getByRole('link', { name: 'Compare' }).click({ modifiers: ['ControlOrMeta'] }),
  ]);
  await comparison.waitForLoadState();
  assert.match(await comparison.locator('#compare').innerText(), /Version 1 compared with version 2/);
  await api(server.base, 'DELETE', `/invoices/${invoice.id}`, { headers });
  await notice.getByText('This row was deleted by mina').waitFor();
  assert.equal(await press(otto, 'Save'), 410);
  await sound(otto);
  await otto.context().close();
});

test('the whole walk goes by keyboard', async () => {
  const invoice = await newInvoice(server.base);
  const otto = await person('otto');
  await open(otto, invoice);
  await otto.keyboard.press('Tab');
  assert.equal(await otto.evaluate(() => document.activeElement.textContent), 'Skip to the content');
  await otto.keyboard.press('Enter');
  await api(server.base, 'PATCH', `/invoices/${invoice.id}`, { body: { amount: 1100 } });
  await otto.locator('[name="f.amount"]').focus();
  await otto.keyboard.press('ControlOrMeta+a');
  await otto.keyboard.type('1250');
  await otto.keyboard.press('Enter');
  await otto.waitForURL(/invoices\/[^/]+$/);
  await otto.getByRole('heading', { name: /changed while you were editing/ }).waitFor();
  const reached = [];
  for (let i = 0; i < 12 && !reached.includes('theirs'); i += 1) {
    await otto.keyboard.press('Tab');
    reached.push(await otto.evaluate(() => document.activeElement.value ?? document.activeElement.textContent));
  }
  assert.ok(reached.includes('theirs'), `the first choice is reached: ${reached}`);
  await otto.keyboard.press('ArrowDown');
  await otto.keyboard.press('Enter');
  await otto.getByText(/Both changes are saved as version 3/).waitFor();
  assert.equal((await stored(invoice)).amount, 1250);
  await otto.context().close();
});

test('nothing is left to be found behind the page at 360 px', async () => {
  const invoice = await newInvoice(server.base, { memo: 'w'.repeat(300), lines: [{ text: 'x'.repeat(200) }] });
  const otto = await person('a-rather-long-name-of-somebody-at-the-counter', { viewport: { width: 360, height: 740 } });
  await open(otto, invoice);
  await fill(otto, { memo: 'v'.repeat(300), amount: '2' });
  await api(server.base, 'PATCH', `/invoices/${invoice.id}`, { body: { memo: 'u'.repeat(300), amount: 1 } });
  await press(otto, 'Save');
  const addresses = [null, '', '/history?from=1&to=2', '/delete'].map((end) => end === null ? null : record(invoice) + end);
  for (const address of [...addresses, `${server.base}/console`, `${server.base}/console/invoices`, `${server.base}/console/invoices/-/new`]) {
    if (address) await otto.goto(address);
    const wide = await otto.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 360, `${address ?? 'the merge form'} is ${wide} px wide`);
    await sound(otto);
  }
  await otto.context().close();
});

test('pictures of every page', async () => {
  const looks = {
    light: { viewport: { width: 1180, height: 900 } },
    dark: { viewport: { width: 1180, height: 900 }, colorScheme: 'dark' },
    narrow: { viewport: { width: 360, height: 740 } },
  };
  for (const [look, options] of Object.entries(looks)) {
    const invoice = await newInvoice(server.base, { memo: 'Second oven, first instalment', tags: ['equipment'] });
    const page = await person('otto', options);
    const keep = async (name) => {
      // What sticks to the window would stand in the middle of a picture of the whole page.
      await page.evaluate(() => {
        for (const element of document.querySelectorAll('.sticky, .top, .live')) element.style.position = 'static';
        window.scrollTo(0, 0);
      });
      await picture(page, `console-${name}-${look}`);
      await sound(page);
    };
    const headers = { 'x-actor': 'mina' };
    const saves = (body) => api(server.base, 'PATCH', `/invoices/${invoice.id}`, { body, headers });
    await page.goto(`${server.base}/console`);
    await keep('resources');
    await page.goto(`${server.base}/console/invoices?status=eq.sent&order=amount.desc`);
    await keep('rows');
    await page.goto(`${server.base}/console/invoices/-/new`);
    await keep('new');
    await open(page, invoice);
    await fill(page, { amount: '1250', memo: 'Second oven, last instalment and delivery', due_on: '2026-11-01' });
    await saves({ amount: 1100, memo: 'Second oven, second instalment', tags: ['equipment', 'instalment'] });
    await page.getByText('Version 2 was saved by mina').waitFor();
    await keep('form');
    await press(page, 'Save');
    await decide(page, 'Memo', 'Edit');
    await keep('merge');
    await press(page, 'Save the result');
    await keep('undecided');
    await open(page, invoice);
    await fill(page, { due_on: '2026-11-02' });
    await saves({ amount: 1150 });
    await press(page, 'Save');
    await keep('one-click');
    await press(page, 'Save both changes');
    await keep('saved');
    await page.goto(`${record(invoice)}/history?from=1&to=4`);
    await keep('history');
    await page.goto(`${record(invoice)}/delete`);
    await keep('delete');
    await open(page, invoice);
    await fill(page, { memo: 'call them first' });
    await api(server.base, 'DELETE', `/invoices/${invoice.id}`, { headers });
    await press(page, 'Save');
    await keep('deleted');
    await page.goto(`${server.base}/console/-/you`);
    await keep('you');
    await page.goto(`${server.base}/console/nothing`);
    await keep('nothing');
    await page.context().close();
  }
});
