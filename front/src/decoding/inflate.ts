/**
 * Raw deflate undone at once (RFC 1951). The browser's own DecompressionStream answers only after
 * the page has been laid out and paintInto; the first picture need not wait for that.
 */

const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const LENGTHS = steps(3, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5]);
const DISTANCES = steps(1, [0, 0, 0, 0, ...Array.from({ length: 26 }, (_, index) => (index >> 1) + 1)]);
const FAST = 9; // bits that are looked up at once

/** Where each step begins and how many more bits it has. */
function steps(first: number, extra: number[]): { from: Uint16Array; extra: Uint8Array } {
  const from = new Uint16Array(extra.length + 1);
  let next = first;
  extra.forEach((bits, index) => {
    from[index] = next;
    next += 1 << bits;
  });
  return { from, extra: Uint8Array.from(extra) };
}

LENGTHS.from[28] = 258; // the longest has a code of its own

/** A code by the lengths of its words: short words in one props, long ones bit by bit. */
class Code {
  readonly fast = new Uint16Array(1 << FAST);
  readonly counts = new Uint16Array(16);
  readonly symbols: Uint16Array;

  constructor(lengths: Uint8Array) {
    for (const length of lengths) this.counts[length]!++;
    this.counts[0] = 0;
    const places = new Uint16Array(16);
    const words = new Uint16Array(16);
    for (let length = 1; length < 16; length++) {
      places[length] = places[length - 1]! + this.counts[length - 1]!;
      words[length] = (words[length - 1]! + this.counts[length - 1]!) << 1;
    }
    this.symbols = new Uint16Array(lengths.length);
    lengths.forEach((length, symbol) => {
      if (!length) return;
      this.symbols[places[length]!++] = symbol;
      const word = words[length]!++;
      if (length <= FAST) this.fill(word, length, symbol);
    });
  }

  private fill(word: number, length: number, symbol: number): void {
    let turned = 0;
    for (let bit = 0; bit < length; bit++) turned |= ((word >> bit) & 1) << (length - 1 - bit);
    for (let at = turned; at < 1 << FAST; at += 1 << length) this.fast[at] = (symbol << 4) | length;
  }
}

const FIXED = fixed();

function fixed(): [Code, Code] {
  const lengths = new Uint8Array(288).fill(8).fill(9, 144, 256).fill(7, 256, 280);
  return [new Code(lengths), new Code(new Uint8Array(30).fill(5))];
}

class Inflater {
  private at = 0;
  private held = 0;
  private bits = 0;
  private filled = 0;
  private output: Uint8Array;

  constructor(private readonly input: Uint8Array) {
    this.output = new Uint8Array(Math.max(1024, input.length * 4));
  }

  run(): Uint8Array {
    let last = 0;
    while (!last) {
      last = this.take(1);
      const kind = this.take(2);
      if (kind === 0) this.stored();
      else if (kind === 1) this.coded(FIXED[0], FIXED[1]);
      else this.coded(...this.codes());
    }
    return this.output.slice(0, this.filled);
  }

  private take(count: number): number {
    while (this.bits < count) {
      this.held |= (this.input[this.at++] ?? 0) << this.bits;
      this.bits += 8;
    }
    const found = this.held & ((1 << count) - 1);
    this.held >>>= count;
    this.bits -= count;
    return found;
  }

  private symbol(code: Code): number {
    while (this.bits < 15) {
      this.held |= (this.input[this.at++] ?? 0) << this.bits;
      this.bits += 8;
    }
    const short = code.fast[this.held & ((1 << FAST) - 1)]!;
    if (short) {
      this.held >>>= short & 15;
      this.bits -= short & 15;
      return short >> 4;
    }
    return this.long(code);
  }

  private long(code: Code): number {
    let [word, first, index] = [0, 0, 0];
    for (let length = 1; length < 16; length++) {
      word |= (this.held >>> (length - 1)) & 1;
      const count = code.counts[length]!;
      if (word - count < first) {
        this.held >>>= length;
        this.bits -= length;
        return code.symbols[index + word - first]!;
      }
      index += count;
      first = (first + count) << 1;
      word <<= 1;
    }
    throw new Error("the bytes of this page are broken");
  }

  private room(more: number): void {
    if (this.filled + more <= this.output.length) return;
    const larger = new Uint8Array(Math.max(2 * this.output.length, this.filled + more));
    larger.set(this.output);
    this.output = larger;
  }

  private stored(): void {
    this.at -= this.bits >> 3;
    this.held = this.bits = 0;
    const length = this.input[this.at]! | (this.input[this.at + 1]! << 8);
    this.at += 4;
    this.room(length);
    this.output.set(this.input.subarray(this.at, this.at + length), this.filled);
    this.at += length;
    this.filled += length;
  }

  private codes(): [Code, Code] {
    const [literals, distances, count] = [this.take(5) + 257, this.take(5) + 1, this.take(4) + 4];
    const small = new Uint8Array(19);
    for (let index = 0; index < count; index++) small[ORDER[index]!] = this.take(3);
    const code = new Code(small);
    const lengths = new Uint8Array(literals + distances);
    for (let index = 0; index < lengths.length; ) {
      const symbol = this.symbol(code);
      if (symbol < 16) lengths[index++] = symbol;
      else {
        const value = symbol === 16 ? lengths[index - 1]! : 0;
        const times = symbol === 16 ? 3 + this.take(2) : symbol === 17 ? 3 + this.take(3) : 11 + this.take(7);
        lengths.fill(value, index, index + times);
        index += times;
      }
    }
    return [new Code(lengths.slice(0, literals)), new Code(lengths.slice(literals))];
  }

  private coded(literals: Code, distances: Code): void {
    for (;;) {
      const symbol = this.symbol(literals);
      if (symbol === 256) return;
      this.room(258);
      if (symbol < 256) this.output[this.filled++] = symbol;
      else {
        const length = LENGTHS.from[symbol - 257]! + this.take(LENGTHS.extra[symbol - 257] ?? 0);
        const far = this.symbol(distances);
        const distance = DISTANCES.from[far]! + this.take(DISTANCES.extra[far]!);
        const { output, filled } = this;
        for (let index = filled; index < filled + length; index++) output[index] = output[index - distance]!;
        this.filled += length;
      }
    }
  }
}

export function inflate(bytes: Uint8Array): Uint8Array {
  return new Inflater(bytes).run();
}
