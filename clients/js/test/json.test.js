import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Decimal, equal, number, parse, stringify } from '../counterfoil.js';
import { copy, frozen } from '../lib/json.js';

test('numbers that a double shows alike are numbers, others keep their text', () => {
  const read = parse('[1, -2.50, 1e3, 0.30000000000000004, 9007199254740992, 9007199254740993, 0.1234567890123456789, 1e400, -0.00]');
  assert.deepEqual(read.slice(0, 5), [1, -2.5, 1000, 0.30000000000000004, 9007199254740992]);
  assert.equal(read[5], 9007199254740993n);
  assert.ok(read[6] instanceof Decimal);
  assert.equal(String(read[6]), '0.1234567890123456789');
  assert.equal(String(read[7]), '1e400');
  assert.equal(read[8], -0);
});

test('what was read is written with the same digits', () => {
  const text = '{"a":12345678901234567890,"b":[0.1000000000000000000001,{"c":-9223372036854775808}],"d":"12345678901234567890","e":1e999}';
  assert.equal(stringify(parse(text)), text);
});

test('random numbers come back worth the same', () => {
  const digits = (n) => Array.from({ length: n }, () => Math.floor(Math.random() * 10)).join('').replace(/^0+(?=\d)/, '');
  for (let i = 0; i < 5_000; i += 1) {
    const fraction = Math.random() < 0.5 ? `.${digits(1 + Math.floor(Math.random() * 20))}` : '';
    const exponent = Math.random() < 0.2 ? `e${Math.floor(Math.random() * 800 - 400)}` : '';
    const text = `${Math.random() < 0.5 ? '-' : ''}${digits(1 + Math.floor(Math.random() * 25))}${fraction}${exponent}`;
    const [read] = parse(`[${text}]`);
    assert.ok(equal(parse(stringify([read]))[0], new Decimal(text)), text);
  }
});

test('doubles come back as themselves', () => {
  const view = new DataView(new ArrayBuffer(8));
  for (let i = 0; i < 5_000; i += 1) {
    view.setBigUint64(0, (BigInt(Math.floor(Math.random() * 2 ** 32)) << 32n) | BigInt(Math.floor(Math.random() * 2 ** 32)));
    const double = view.getFloat64(0);
    if (Number.isFinite(double)) assert.equal(parse(stringify([double]))[0], double);
  }
});

test('the reader agrees with JSON.parse about everything else', () => {
  const long = '1234567890123456789';
  const texts = [
    '{"a":"\\u0041\\n\\"","b":[],"c":{},"d":[true,false,null], "e" : "x" }',
    '{"__proto__":{"x":1},"constructor":2}',
    '"\\ud83d\\ude00"',
    ' [ [ [ 1.5 ] ] ] ',
  ];
  for (const text of texts) {
    const [read] = parse(`[${text},${long}]`);
    assert.deepEqual(read, JSON.parse(text));
    assert.deepEqual(Object.keys(Object(read)), Object.keys(Object(JSON.parse(text))));
  }
  const broken = ['', '[', '{"a"}', '[1,]', '{"a":1,}', '[01]', '[+1]', '[.5]', '[1.]', '"a', '[1] 2', '[tru]', '["\\x"]', '["\n"]', '{a:1}', '[NaN]'];
  for (const text of broken) {
    assert.throws(() => parse(text), SyntaxError, text);
    assert.throws(() => parse(`[${long},${text}]`), SyntaxError, text);
  }
});

test('a decimal takes no part in arithmetic by accident', () => {
  const decimal = number('0.1234567890123456789');
  assert.throws(() => decimal + 1, TypeError);
  assert.throws(() => decimal * 2, TypeError);
  assert.throws(() => decimal < 1, TypeError);
  assert.equal(`${decimal}`, '0.1234567890123456789');
  assert.equal(decimal.toNumber(), 0.12345678901234568);
  assert.equal(JSON.stringify({ decimal }), '{"decimal":"0.1234567890123456789"}');
});

test('number reads what people type, and nothing else', () => {
  assert.equal(number(' 12.50 '), 12.5);
  assert.equal(number('+7'), 7);
  assert.equal(number('+12345678901234567890'), 12345678901234567890n);
  assert.equal(String(number('+0012345678901234567890.5')), '12345678901234567890.5');
  for (const text of ['', 'abc', '1,5', '0x10', 'NaN', 'Infinity', '1_000', '--1', '1.2.3']) {
    assert.throws(() => number(text), TypeError, text);
  }
});

test('numbers are equal by what they are worth, texts are not numbers', () => {
  assert.ok(equal(1, new Decimal('1.000')));
  assert.ok(equal(10n, 10));
  assert.ok(equal(100, new Decimal('1e2')));
  assert.ok(equal({ a: [1, { b: null }] }, { a: [1n, { b: null }] }));
  assert.ok(!equal(9007199254740992, 9007199254740993n));
  assert.ok(!equal('1', 1));
  assert.ok(!equal([], {}));
  assert.ok(!equal({ a: undefined }, { b: undefined }));
  assert.ok(!equal(null, {}));
});

test('what JSON cannot say is refused or written as JSON.stringify does', () => {
  assert.throws(() => stringify({ a: Number.NaN }), TypeError);
  assert.throws(() => stringify(undefined), TypeError);
  const when = new Date(0);
  assert.equal(stringify({ when, none: undefined, list: [undefined] }), JSON.stringify({ when, none: undefined, list: [undefined] }));
});

test('copies are deep, and frozen ones cannot be changed', () => {
  const value = { list: [{ n: 1n, d: new Decimal('1.10') }] };
  const copied = copy(value);
  copied.list[0].n = 2n;
  assert.equal(value.list[0].n, 1n);
  assert.throws(() => {
    frozen(value).list[0].n = 3n;
  }, TypeError);
  value.list[0].n = 4n;
});
