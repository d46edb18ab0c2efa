// What the browser tests share: a browser, people at windows, pictures.

import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';

export { startServer } from '../../clients/js/test/server.js';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');

/** Where the pictures of a run are kept, to be looked at; `COUNTERFOIL_PICTURES` says otherwise. */
const PICTURES = process.env.COUNTERFOIL_PICTURES ?? join(ROOT, 'target/pictures');

const BROWSERS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** A headless browser with a profile of its own, which ends with it. */
export async function startBrowser() {
  const executablePath = BROWSERS.find((path) => existsSync(path));
  if (!executablePath) throw new Error('There is no Chromium; scripts/setup.sh chromium installs it');
  return chromium.launch({ executablePath, headless: true, args: FLAGS });
}

/**
 * A window of one person, as a context of its own. What goes wrong in its pages is kept in
 * `problems`: a failed script, a word of the console, anything the content policy stopped.
 */
export async function openWindow(browser, { actor, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 900, height: 1000 }, locale: 'en-GB', ...options });
  if (actor) await context.addInitScript((name) => sessionStorage.setItem('actor', name), actor);
  const page = await context.newPage();
  const problems = [];
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    // A refused save is part of the story; the browser writes each into its console.
    const refused = /the server responded with a status of 4\d\d/.test(message.text());
    if (message.type() === 'error' && !refused) problems.push(message.text());
  });
  page.setDefaultTimeout(15_000);
  return Object.assign(page, { problems });
}

/** Keeps a picture of a page under a name. */
export async function picture(page, name) {
  await mkdir(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
}

/** A request to the server's API; gives the answer's body. */
export async function api(base, method, path, { body, headers } = {}) {
  const response = await fetch(`${base}/api/v1${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text === '' ? null : JSON.parse(text);
}

/** An invoice of one test alone; gives its row. */
export async function newInvoice(base, values = {}) {
  const id = randomUUID();
  const invoice = { id, number: `T-${id.slice(0, 8)}`, customer: 'Harbour Bakery', amount: 1000, due_on: '2026-10-28', ...values };
  const { data } = await api(base, 'POST', '/invoices', { body: invoice });
  return data;
}

/**
 * What a screen reader could not tell about a page: controls without a name, ids that stand twice,
 * headings that skip a level, fieldsets without a legend.
 */
export function soundness(page) {
  return page.evaluate(() => {
    const found = [];
    const visible = (element) => element.offsetParent !== null || element.getClientRects().length > 0;
    const named = (element) =>
      element.getAttribute('aria-label') ||
      element.getAttribute('aria-labelledby') ||
      [...(element.labels ?? [])].some((label) => label.textContent.trim()) ||
      (element.tagName === 'BUTTON' && element.textContent.trim());
    for (const element of document.querySelectorAll('input:not([type=hidden]), select, textarea, button')) {
      if (visible(element) && !named(element)) found.push(`no name: ${element.outerHTML.slice(0, 80)}`);
    }
    for (const element of document.querySelectorAll('fieldset')) {
      if (visible(element) && !element.querySelector('legend')?.textContent.trim()) found.push(`no legend: ${element.id}`);
    }
    const ids = [...document.querySelectorAll('[id]')].map(({ id }) => id);
    for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) found.push(`id twice: ${id}`);
    for (const element of document.querySelectorAll('[aria-describedby], [aria-labelledby]')) {
      const names = `${element.getAttribute('aria-describedby') ?? ''} ${element.getAttribute('aria-labelledby') ?? ''}`;
      for (const name of names.split(/\s+/).filter(Boolean)) {
        if (!document.getElementById(name)) found.push(`refers to nothing: ${name}`);
      }
    }
    if (!document.documentElement.lang) found.push('no language');
    return found;
  });
}
