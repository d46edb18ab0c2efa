// JSON in which no digit is lost. A number that a double shows with the same digits is a `number`;
// a longer whole number is a `bigint`; any other is a `Decimal`, which keeps the text.

const NUMBER = /^[+-]?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/** A number with more digits than a double holds, kept as its text. */
export class Decimal {
  #text;

  constructor(text) {
    this.#text = String(text);
    if (!NUMBER.test(this.#text)) throw new TypeError(`"${text}" is not a number`);
    this.#text = this.#text.replace(/^\+/, '').replace(/^(-?)0+(?=\d)/, '$1');
    Object.freeze(this);
  }

  toString() {
    return this.#text;
  }

  /** The nearest double; asked for by name, because it loses digits. */
  toNumber() {
    return Number(this.#text);
  }

  equals(other) {
    return equal(this, other);
  }

  /** For `JSON.stringify`, which cannot write such a number; `stringify` of this module can. */
  toJSON() {
    return this.#text;
  }

  [Symbol.for('nodejs.util.inspect.custom')]() {
    return `Decimal(${this.#text})`;
  }

  [Symbol.toPrimitive](hint) {
    if (hint === 'string') return this.#text;
    throw new TypeError('A Decimal is no double: use toString(), or toNumber() to lose digits');
  }
}

/** The number that a text spells, in the form that keeps its digits. */
export function number(text) {
  const trimmed = String(text).trim();
  if (!NUMBER.test(trimmed)) throw new TypeError(`"${text}" is not a number`);
  const double = Number(trimmed);
  if (Number.isFinite(double) && canonical(String(double)) === canonical(trimmed)) return double;
  return /^[+-]?\d+$/.test(trimmed) ? BigInt(trimmed.replace(/^\+/, '')) : new Decimal(trimmed);
}

/** One spelling for each value: digits without zeros around them, and a power of ten. */
function canonical(text) {
  const [, whole, fraction = '', exponent = '0'] = NUMBER.exec(text);
  const digits = (whole + fraction).replace(/^0+/, '');
  const trimmed = digits.replace(/0+$/, '');
  if (trimmed === '') return '0';
  const power = BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - trimmed.length);
  return `${text.startsWith('-') ? '-' : ''}${trimmed}e${power}`;
}

// --- reading -------------------------------------------------------------------------------------

/** Whether a text may hold a number that a double cannot: sixteen digits, or a large exponent. */
const SUSPECT = /\d[\d.]{15}|[eE][+-]?\d{3}/;

/** Reads JSON text. */
export function parse(text) {
  return SUSPECT.test(text) ? new Reader(text).all() : JSON.parse(text);
}

const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\.)*"/y;
const NUMERAL = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;

class Reader {
  #text;
  #at = 0;

  constructor(text) {
    this.#text = text;
  }

  all() {
    const value = this.#value();
    if (this.#at < this.#text.length) this.#fail();
    return value;
  }

  #value() {
    this.#take(SPACE);
    const first = this.#text[this.#at];
    const value =
      first === '{' ? this.#object()
      : first === '[' ? this.#array()
      : first === '"' ? this.#string()
      : this.#scalar();
    this.#take(SPACE);
    return value;
  }

  #object() {
    const object = {};
    this.#list('}', () => {
      this.#take(SPACE);
      const name = this.#string();
      this.#take(SPACE);
      this.#expect(':');
      // Not by assignment: a member may be called "__proto__".
      const value = this.#value();
      Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
    });
    return object;
  }

  #array() {
    const array = [];
    this.#list(']', () => array.push(this.#value()));
    return array;
  }

  #list(end, item) {
    this.#at += 1;
    this.#take(SPACE);
    if (this.#text[this.#at] === end) {
      this.#at += 1;
      return;
    }
    for (;;) {
      item();
      if (this.#text[this.#at] === end) break;
      this.#expect(',');
    }
    this.#at += 1;
  }

  #string() {
    return JSON.parse(this.#take(STRING) ?? this.#fail());
  }

  #scalar() {
    const word = this.#take(WORD);
    if (word) return JSON.parse(word);
    return number(this.#take(NUMERAL) ?? this.#fail());
  }

  #take(pattern) {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #expect(character) {
    if (this.#text[this.#at] !== character) this.#fail();
    this.#at += 1;
  }

  #fail() {
    throw new SyntaxError(`This is no JSON, at character ${this.#at}`);
  }
}

// --- writing -------------------------------------------------------------------------------------

/** Writes JSON text; `bigint` and `Decimal` with all their digits. */
export function stringify(value) {
  const text = write(value);
  if (text === undefined) throw new TypeError('There is nothing to write as JSON');
  return text;
}

function write(value) {
  if (value instanceof Decimal) return value.toString();
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new TypeError(`${value} is no JSON number; send it as the text "${value}"`);
    return JSON.stringify(value);
  }
  if (typeof value?.toJSON === 'function') return write(value.toJSON());
  if (Array.isArray(value)) return `[${value.map((item) => write(item) ?? 'null').join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const members = Object.entries(value)
      .map(([name, member]) => [JSON.stringify(name), write(member)])
      .filter(([, member]) => member !== undefined);
    return `{${members.map(([name, member]) => `${name}:${member}`).join(',')}}`;
  }
  return JSON.stringify(value);
}

// --- comparing and copying -----------------------------------------------------------------------

function isNumber(value) {
  return typeof value === 'number' || typeof value === 'bigint' || value instanceof Decimal;
}

/** Whether two JSON values are the same, numbers by what they are worth. */
export function equal(a, b) {
  if (Object.is(a, b)) return true;
  if (isNumber(a) && isNumber(b)) {
    if (a !== a || b !== b) return false;
    return worth(a) === worth(b);
  }
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') return false;
  if (a instanceof Decimal || b instanceof Decimal) return false;
  if (typeof a.toJSON === 'function' || typeof b.toJSON === 'function') {
    const plain = (value) => (typeof value.toJSON === 'function' ? value.toJSON() : value);
    return equal(plain(a), plain(b));
  }
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name]));
}

function worth(value) {
  const text = String(value);
  return NUMBER.test(text) ? canonical(text) : text;
}

/** Whether a value is the same but for a number that was typed as text. */
export function alike(a, b) {
  if (equal(a, b)) return true;
  const spelt = (value) => (typeof value === 'string' && NUMBER.test(value.trim()) ? number(value) : value);
  return isNumber(spelt(a)) && isNumber(spelt(b)) && equal(spelt(a), spelt(b));
}

/** A deep copy. */
export function copy(value) {
  if (Array.isArray(value)) return value.map(copy);
  if (value === null || typeof value !== 'object' || value instanceof Decimal) return value;
  if (typeof value.toJSON === 'function') return copy(value.toJSON());
  const made = {};
  for (const [name, member] of Object.entries(value)) {
    Object.defineProperty(made, name, { value: copy(member), enumerable: true, writable: true, configurable: true });
  }
  return made;
}

/** A deep copy that nobody can change. */
export function frozen(value) {
  const freeze = (made) => {
    if (made !== null && typeof made === 'object') Object.values(made).forEach(freeze);
    return Object.freeze(made);
  };
  return freeze(copy(value));
}
