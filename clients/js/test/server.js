// What tests share: a server of their own, two people with one invoice, requests that are counted.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { randomUUID } from 'node:crypto';

import { Counterfoil } from '../counterfoil.js';

const START_TIME = 120_000;

/** `counterfoil dev` on a fresh directory and a free port, with these options besides. */
export async function startServer(...options) {
  const binary = process.env.COUNTERFOIL_BIN;
  if (!binary) throw new Error('COUNTERFOIL_BIN must name the server: scripts/test-js.sh sets it');
  const directory = await mkdtemp(join(tmpdir(), 'counterfoil-js-'));
  // Where root runs this, another account keeps the database and must be able to enter.
  await chmod(directory, 0o755);
  const { DATABASE_URL, COUNTERFOIL_CONFIG, ...env } = process.env;
  const child = spawn(binary, ['dev', '--data-dir', directory, '--listen', '127.0.0.1:0', ...options], {
    cwd: directory,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const clear = () => rm(directory, { recursive: true, force: true });
  let complaints = '';
  child.stderr.on('data', (chunk) => (complaints += chunk));
  const started = new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      child.kill();
      reject(new Error(`the server did not start in time\n${complaints}`));
    }, START_TIME);
    child.once('error', reject);
    child.once('exit', (status) => reject(new Error(`the server ended with status ${status}\n${complaints}`)));
    createInterface({ input: child.stdout }).on('line', (line) => {
      const found = /^listening: (\S+)/.exec(line);
      if (!found) return;
      clearTimeout(late);
      resolve(found[1]);
    });
  });
  const base = await started.catch(async (error) => {
    await clear();
    throw error;
  });
  return {
    base,
    async stop() {
      if (child.exitCode === null) {
        const ended = once(child, 'exit');
        child.kill('SIGTERM');
        await ended;
      }
      await clear();
    },
  };
}

/** An invoice of this test alone, as two people see it. */
export async function twoEditors(base, data = {}) {
  const id = randomUUID();
  const mina = new Counterfoil({ base, actor: 'mina' }).resource('invoices');
  const tom = new Counterfoil({ base, actor: 'tom' }).resource('invoices');
  const invoice = { number: id, customer: 'Harbour Bakery', amount: 1000, due_on: '2026-10-28', memo: null, ...data };
  const created = await mina.create(invoice, { id });
  if (!created.ok) throw new Error(created.conflict.message);
  return { id, mina, tom, minas: await mina.read(id), toms: await tom.read(id) };
}

/** A fetch that counts, and can be made to lose an answer. */
export function recordingFetch() {
  const requests = [];
  const recording = async (url, init) => {
    requests.push({ method: init.method, url: String(url), headers: Object.fromEntries(init.headers), body: init.body });
    const response = await fetch(url, init);
    if (recording.loseAnswer) {
      recording.loseAnswer = false;
      await response.text();
      throw new TypeError('connection reset');
    }
    return response;
  };
  recording.requests = requests;
  return recording;
}
