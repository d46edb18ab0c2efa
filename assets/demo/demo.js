// One invoice, edited by anybody at once: the whole of what a form needs on Counterfoil's client.
// Copy from here: read, edit, save; where somebody else was faster, show both and let the person decide.

import { Counterfoil, CounterfoilError, Decimal, UndecidedError, number } from '/demo/counterfoil.js';

const $ = (id) => document.getElementById(id);
const TITLE = document.title;
const LABELS = { customer: 'Customer', amount: 'Amount', currency: 'Currency', due_on: 'Due on', status: 'Status', memo: 'Memo' };

// What two windows of one browser are called until somebody says better; each keeps its own name.
const names = ['Mina', 'Tom', 'Ada', 'Joe', 'Eva', 'Max'];
$('actor').value = sessionStorage.getItem('actor') ?? names[Math.floor(Math.random() * names.length)];
$('actor').addEventListener('input', () => sessionStorage.setItem('actor', $('actor').value));

const counterfoil = new Counterfoil({ actor: () => $('actor').value.trim() });
const invoices = counterfoil.resource('invoices');

/** The invoice on the page, what ends its watch, and the conflict that is being decided. */
let invoice = null;
let unwatch = () => {};
let conflict = null;

// --- between the form and the record ------------------------------------------------------------

/** A field's value as its input shows it. */
function shown(value) {
  return value === null || value === undefined ? '' : String(value);
}

/** What stands in an input, as the record holds it. Throws a TypeError for an amount that is none. */
function typed(field, text) {
  if (field === 'amount') return text.trim() === '' ? null : number(text);
  if ((field === 'due_on' || field === 'memo') && text === '') return null;
  return text;
}

/** A value for people. */
function worded(field, value) {
  if (value === null || value === undefined || value === '') return '(empty)';
  if (field === 'due_on' && !Number.isNaN(Date.parse(value))) {
    return new Intl.DateTimeFormat('en', { dateStyle: 'long', timeZone: 'UTC' }).format(new Date(value));
  }
  if (typeof value === 'object' && !(value instanceof Decimal)) return JSON.stringify(value);
  return String(value);
}

const form = $('invoice');
const inputs = () => Object.keys(LABELS).map((field) => form.elements.namedItem(field));

/** Shows the record; `keep` leaves alone what the record could not take. */
function fillForm(keep = false) {
  for (const input of inputs()) {
    if (!keep || readable(input)) input.value = shown(invoice.data[input.name]);
  }
  $('invoice-title').textContent = `Invoice ${invoice.data.number}`;
  $('version').textContent = invoice.exists ? `version ${invoice.version}` : 'not saved';
  clearErrors();
}

function readable(input) {
  try {
    typed(input.name, input.value);
    return true;
  } catch {
    return false;
  }
}

/** Takes what was typed into the record; gives the first input that cannot be read. */
function readForm() {
  clearErrors();
  let wrong = null;
  for (const input of inputs()) {
    try {
      const value = typed(input.name, input.value);
      // An input that shows what the record holds is no edit: 10.50 is 10.5.
      if (input.value !== shown(invoice.data[input.name])) invoice.data[input.name] = value;
    } catch {
      showError(input, 'This is not a number; write it as 1250.00');
      wrong ??= input;
    }
  }
  return wrong;
}

// The record follows the form, so that what is typed while a save is under way is not overlooked.
form.addEventListener('input', () => {
  for (const input of inputs().filter(readable)) {
    if (input.value !== shown(invoice.data[input.name])) invoice.data[input.name] = typed(input.name, input.value);
  }
});

/** Whether somebody typed what is not saved. */
function dirty() {
  return (
    conflict !== null ||
    (invoice !== null && (invoice.changed || inputs().some((input) => input.value !== shown(invoice.data[input.name]))))
  );
}

function showError(input, message) {
  input.setAttribute('aria-invalid', 'true');
  $(`${input.name}-error`).textContent = message;
}

function clearErrors() {
  $('form-error').textContent = '';
  for (const input of inputs()) {
    input.removeAttribute('aria-invalid');
    $(`${input.name}-error`).textContent = '';
  }
}

// --- what the page shows --------------------------------------------------------------------------

/** Shows one of the three: the form, the conflict, the word of a deletion. */
function show(part) {
  form.hidden = part !== 'invoice';
  $('conflict').hidden = part !== 'conflict';
  $('deleted').hidden = part !== 'deleted';
  if (part !== 'conflict') conflict = null;
  $('notice').hidden = true;
  document.title = part === 'conflict' ? `Conflict – ${TITLE}` : TITLE;
}

function say(message) {
  $('status').textContent = message;
}

/** The page goes on with a record. */
function edit(record, message = '') {
  unwatch();
  const same = record === invoice;
  invoice = record;
  fillForm(same);
  show('invoice');
  say(message);
  // The quiet word that somebody else saved, before one saves oneself. It never touches the form.
  unwatch = record.exists ? record.watch(notice) : () => {};
}

async function notice({ record, deleted, version }) {
  const { value: newest } = await record.history({ limit: 1 }).next();
  if (conflict || record !== invoice || (!deleted && record.version >= version)) return;
  const by = newest?.by ?? 'Somebody else';
  $('notice-text').textContent = deleted
    ? `${by} deleted this invoice.`
    : `${by} saved this invoice (version ${version}). You see version ${invoice.version}.`;
  $('notice-open').hidden = deleted;
  $('notice').hidden = false;
}

async function open(id) {
  try {
    edit(await invoices.read(id));
  } catch (error) {
    if (error.code !== 'RECORD_DELETED') throw error;
    unwatch();
    invoice = null;
    show('none');
    say(`${error.details.changed_by} deleted this invoice.`);
  }
}

function fail(error) {
  if (!(error instanceof CounterfoilError)) throw error;
  const input = error.field && form.elements.namedItem(error.field);
  if (input && !form.hidden) {
    showError(input, error.message);
    input.focus();
  } else {
    (conflict ? $('conflict-error') : form.hidden ? $('status') : $('form-error')).textContent = error.message;
  }
}

/** Runs what a button does; the buttons rest meanwhile, so that nothing is sent twice. */
async function busy(work) {
  const buttons = [...document.querySelectorAll('button')].filter((button) => !button.disabled);
  const focused = document.activeElement;
  buttons.forEach((button) => (button.disabled = true));
  try {
    await work();
  } catch (error) {
    fail(error);
  } finally {
    buttons.forEach((button) => (button.disabled = false));
    if (document.activeElement === document.body && focused?.isConnected && focused.offsetParent) focused.focus();
  }
}

// --- saving -------------------------------------------------------------------------------------

function settle(result, message) {
  if (!result.ok) return showConflict(result.conflict);
  const decided = conflict !== null;
  edit(result.record, `${message} This is version ${result.record.version}.`);
  if (decided) $('status').focus();
}

function saved({ ok, outcome, record }) {
  if (!ok) return '';
  if (outcome === 'unchanged') return 'Nothing to save.';
  if (outcome === 'already-applied') return 'Already saved.';
  return record === invoice ? 'Saved.' : 'Saved with your decisions.';
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  const wrong = readForm();
  if (wrong) return wrong.focus();
  busy(async () => {
    const result = await invoice.save();
    settle(result, saved(result));
  });
});

$('discard').addEventListener('click', () => {
  invoice.discard();
  fillForm();
  say('Your edits are undone.');
});

$('remove').addEventListener('click', () => {
  busy(async () => {
    const result = await invoice.remove();
    if (!result.ok) return showConflict(result.conflict);
    showDeleted(`Invoice ${invoice.data.number} was deleted.`);
  });
});

function showDeleted(message, { final = false } = {}) {
  unwatch();
  say('');
  $('bring-back').hidden = final;
  $('deleted-title').textContent = message;
  show('deleted');
  $('deleted-title').focus();
}

// A record that was removed is created again by saving it; its versions go on.
$('bring-back').addEventListener('click', () => {
  busy(async () => settle(await invoice.save(), 'The invoice is back.'));
});

$('notice-open').addEventListener('click', () => {
  if (dirty() && !confirm('Discard what you typed?')) return;
  busy(() => open(invoice.id));
});

$('notice-compare').addEventListener('click', () => {
  const wrong = readForm();
  if (wrong) return wrong.focus();
  busy(async () => {
    if (!invoice.changed) return open(invoice.id);
    // Nothing is written: it is only asked what saving would meet.
    const met = await invoice.compare();
    if (met) showConflict(met);
    else edit(invoice, 'Nothing stands against your changes.');
  });
});

// --- the conflict ---------------------------------------------------------------------------------

function showConflict(met) {
  conflict = met;
  const { clashes, fields, deleted, mergeable, operation } = met;
  const by = met.changedBy ?? 'Somebody else';
  const when = met.changedAt ? ` ${ago(met.changedAt)}` : '';
  const again = met.previous ? ' again' : '';
  const deleting = operation === 'remove';

  $('conflict-title').textContent = deleted
    ? `${by} deleted this invoice${when}.`
    : `${by} saved this invoice${again}${when} (version ${met.currentVersion}).`;
  $('conflict-text').textContent = deleting
    ? 'You wanted to delete it, and had not seen this version. Nothing was deleted.'
    : deleted
      ? 'What you typed is still here: restore the invoice with it, or accept the deletion.'
      : `You started from version ${met.yourVersion}. Nothing of yours is lost.`;

  const auto = fields.filter(({ verdict }) => verdict !== 'both' && verdict !== 'same');
  fillChoices($('decide'), $('decide-fields'), fields.filter(({ field }) => clashes.includes(field)));
  fillChoices($('combined'), $('combined-fields'), auto);
  $('combined-title').textContent = deleted ? 'Restored with it' : 'Combined automatically';
  $('one-click').hidden = !mergeable;
  $('conflict-error').textContent = '';
  $('conflict-save').textContent = deleted ? 'Restore with my changes' : deleting ? 'Delete this version' : 'Save merged version';
  $('conflict-save').classList.toggle('primary', !mergeable);
  $('conflict-drop').textContent = deleted ? 'Accept the deletion' : deleting ? 'Keep it and open the latest' : 'Discard mine and open the latest';
  show('conflict');
  say('');
  $('conflict-title').focus();
}

/** One fieldset for each field: what was, what they made of it, what you typed, and whose it is to be. */
function fillChoices(part, list, fields) {
  part.hidden = fields.length === 0;
  list.replaceChildren(...fields.map(choiceFor));
}

function choiceFor({ field, verdict, base, yours, theirs, merged }) {
  const mine = Object.hasOwn(conflict.yours, field) ? conflict.yours[field] : yours;
  const node = $('choice-template').content.cloneNode(true).firstElementChild;
  const label = LABELS[field] ?? field;
  const tags = { yours: 'changed by you', theirs: `changed by ${conflict.changedBy ?? 'them'}`, merged: 'both changes combined' };
  node.dataset.field = field;
  node.querySelector('legend').textContent = tags[verdict] ? `${label} – ${tags[verdict]}` : label;
  const by = conflict.changedBy ? `Theirs (${conflict.changedBy})` : 'Theirs';
  node.querySelector('.theirs-head').textContent = conflict.deleted ? 'When it was deleted' : by;
  node.querySelector('.base').textContent = worded(field, base);
  node.querySelector('.theirs').textContent = worded(field, theirs);
  node.querySelector('.yours').textContent = worded(field, mine);

  // A clash has no preset: the person decides. What combines by itself shows how.
  const preset = { yours: 'mine', theirs: 'theirs', merged: 'edit' }[verdict];
  const input = editorFor(field, label, verdict === 'merged' ? merged : mine);
  const editor = node.querySelector('.edit');
  editor.append(input);
  node.addEventListener('input', () => {
    node.querySelector('.error').textContent = '';
    node.removeAttribute('aria-invalid');
    $('conflict-error').textContent = '';
  });
  for (const radio of node.querySelectorAll('input[type=radio]')) {
    radio.name = `choice-${field}`;
    radio.checked = radio.value === preset;
    radio.addEventListener('change', () => {
      editor.hidden = radio.value !== 'edit';
    });
  }
  editor.hidden = preset !== 'edit';
  // An object or a list is taken whole; this page has no input for it.
  if (!(field in LABELS)) node.querySelector('input[value=edit]').closest('label').hidden = true;
  return node;
}

/** An input like the form's own, with what was typed in it. */
function editorFor(field, label, value) {
  const own = form.elements.namedItem(field);
  const input = own ? own.cloneNode(true) : document.createElement('input');
  input.id = `edit-${field}`;
  input.name = `edit-${field}`;
  input.removeAttribute('aria-describedby');
  input.removeAttribute('aria-invalid');
  input.setAttribute('aria-label', `${label}, edited`);
  input.value = shown(value);
  return input;
}

/** The decisions as the record takes them; a field that combines by itself keeps its combination. */
function decisions() {
  const choices = {};
  for (const node of document.querySelectorAll('.choice')) {
    const { field } = node.dataset;
    const picked = node.querySelector('input[type=radio]:checked')?.value;
    if (picked !== 'edit') {
      choices[field] = picked;
      continue;
    }
    const { verdict } = conflict.fields.find((entry) => entry.field === field);
    const input = $(`edit-${field}`);
    if (verdict === 'merged' && !(field in LABELS)) continue;
    try {
      choices[field] = { value: typed(field, input.value) };
    } catch (error) {
      return complain([field], 'This is not a number; write it as 1250.00', input);
    }
  }
  return choices;
}

function complain(fields, message, focus) {
  for (const field of fields) {
    const node = document.querySelector(`.choice[data-field="${field}"]`);
    node.setAttribute('aria-invalid', 'true');
    node.querySelector('.error').textContent = message;
  }
  const first = document.querySelector(`.choice[data-field="${fields[0]}"]`);
  (focus ?? first.querySelector('input')).focus();
  return null;
}

$('conflict-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const choices = decisions();
  if (!choices) return;
  let resolved;
  try {
    resolved = conflict.resolve(choices);
  } catch (error) {
    if (!(error instanceof UndecidedError)) throw error;
    $('conflict-error').textContent = `Please decide about: ${error.fields.map((field) => LABELS[field] ?? field).join(', ')}.`;
    return complain(error.fields, 'Choose one.');
  }
  const { deleted, operation } = conflict;
  busy(async () => {
    if (operation === 'remove' && !deleted) {
      const result = await resolved.remove();
      if (!result.ok) return showConflict(result.conflict);
      invoice = resolved;
      return showDeleted(`Invoice ${invoice.data.number} was deleted.`);
    }
    await combine(resolved, async () => {
      const result = await resolved.save();
      settle(result, deleted ? 'The invoice is back, with your changes.' : saved(result));
    });
  });
});

$('save-both').addEventListener('click', () => {
  const by = conflict.changedBy ?? 'somebody else';
  const theirs = conflict.fields.filter(({ verdict }) => verdict === 'theirs').map(({ field }) => LABELS[field] ?? field);
  const message = `Combined with ${by}'s change to ${theirs.join(', ') || 'the invoice'}.`;
  busy(() => combine(conflict.resolve(), async () => settle(await conflict.saveMerged(), message)));
});

/** Saves a combination; where it, or a value in it, is not allowed, it is put right in the form. */
async function combine(resolved, work) {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof CounterfoilError) || error.status !== 422) throw error;
    edit(resolved, 'The combination could not be saved as it is.');
    fail(error);
  }
}

$('conflict-drop').addEventListener('click', () => {
  const { deleted, operation } = conflict;
  if (deleted) return accept();
  if (operation !== 'remove' && !confirm('Discard what you typed?')) return;
  busy(() => open(invoice.id));
});

function accept() {
  const message = `Invoice ${invoice.data.number} stays deleted.`;
  invoice = null;
  showDeleted(message, { final: true });
}

function ago(moment) {
  const seconds = Math.round((new Date(moment) - Date.now()) / 1000);
  if (seconds > -5) return 'just now';
  const units = [['day', 86_400], ['hour', 3_600], ['minute', 60]];
  const [unit, size] = units.find(([, length]) => Math.abs(seconds) >= length) ?? ['second', 1];
  return new Intl.RelativeTimeFormat('en', { numeric: 'auto' }).format(Math.round(seconds / size), unit);
}

// --- choosing an invoice ----------------------------------------------------------------------------

async function begin() {
  for await (const { id, data } of invoices.list({ order: 'number', select: 'id,number,customer' })) {
    $('pick').append(new Option(`${data.number} · ${data.customer}`, id));
  }
  const wanted = location.hash.slice(1);
  if ([...$('pick').options].some(({ value }) => value === wanted)) $('pick').value = wanted;
  if ($('pick').value) await open($('pick').value);
  else say('There are no invoices.');
}

$('pick').addEventListener('change', () => {
  const id = $('pick').value;
  if (dirty() && !confirm('Discard what you typed?')) {
    $('pick').value = invoice.id;
    return;
  }
  history.replaceState(null, '', `#${id}`);
  busy(() => open(id));
});

addEventListener('beforeunload', (event) => {
  if (dirty()) event.preventDefault();
});

busy(begin);
