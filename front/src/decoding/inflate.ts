/**
 * Decompresses raw deflate synchronously (RFC 1951). The browser's own DecompressionStream answers only after
 * the page has been laid out and painted; the first picture need not wait for that.
 */

const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const LENGTHS = valueRanges(3, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5]);
const DISTANCES = valueRanges(1, [0, 0, 0, 0, ...Array.from({ length: 26 }, (_, index) => (index >> 1) + 1)]);
const FAST = 9; // code words of up to this many bits are found by one table lookup

/** The first value of each length or distance code, and how many extra bits follow it. */
function valueRanges(first: number, extra: number[]): { from: Uint16Array; extra: Uint8Array } {
  const from = new Uint16Array(extra.length + 1);
  let next = first;
  extra.forEach((bits, index) => {
    from[index] = next;
    next += 1 << bits;
  });
  return { from, extra: Uint8Array.from(extra) };
}

LENGTHS.from[28] = 258; // RFC 1951 gives the longest match a code of its own

/** A Huffman code, given by the lengths of its code words: short words by table, long ones bit by bit. */
class HuffmanCode {
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

  /** Enter a word into the table, bits reversed, with every possible continuation. */
  private fill(word: number, length: number, symbol: number): void {
    let reversed = 0;
    for (let bit = 0; bit < length; bit++) reversed |= ((word >> bit) & 1) << (length - 1 - bit);
    for (let at = reversed; at < 1 << FAST; at += 1 << length) this.fast[at] = (symbol << 4) | length;
  }
}

const FIXED = fixedCodes();

function fixedCodes(): [HuffmanCode, HuffmanCode] {
  const lengths = new Uint8Array(288).fill(8).fill(9, 144, 256).fill(7, 256, 280);
  return [new HuffmanCode(lengths), new HuffmanCode(new Uint8Array(30).fill(5))];
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
      if (kind === 0) this.storedBlock();
      else if (kind === 1) this.codedBlock(FIXED[0], FIXED[1]);
      else this.codedBlock(...this.readCodes());
    }
    return this.output.slice(0, this.filled);
  }

  /** The next bits of the input, lowest first. */
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

  /** The next symbol of a code. */
  private symbol(code: HuffmanCode): number {
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
    return this.longSymbol(code);
  }

  /** A symbol whose word is longer than the table. */
  private longSymbol(code: HuffmanCode): number {
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

  /** Make room for more bytes of output. */
  private reserve(more: number): void {
    if (this.filled + more <= this.output.length) return;
    const larger = new Uint8Array(Math.max(2 * this.output.length, this.filled + more));
    larger.set(this.output);
    this.output = larger;
  }

  /** A block without compression. */
  private storedBlock(): void {
    this.at -= this.bits >> 3;
    this.held = this.bits = 0;
    const length = this.input[this.at]! | (this.input[this.at + 1]! << 8);
    this.at += 4;
    this.reserve(length);
    this.output.set(this.input.subarray(this.at, this.at + length), this.filled);
    this.at += length;
    this.filled += length;
  }

  /** The two codes of a block that brings its own. */
  private readCodes(): [HuffmanCode, HuffmanCode] {
    const [literals, distances, count] = [this.take(5) + 257, this.take(5) + 1, this.take(4) + 4];
    const small = new Uint8Array(19);
    for (let index = 0; index < count; index++) small[ORDER[index]!] = this.take(3);
    const code = new HuffmanCode(small);
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
    return [new HuffmanCode(lengths.slice(0, literals)), new HuffmanCode(lengths.slice(literals))];
  }

  /** A compressed block: literal bytes, and copies of what was output before. */
  private codedBlock(literals: HuffmanCode, distances: HuffmanCode): void {
    for (;;) {
      const symbol = this.symbol(literals);
      if (symbol === 256) return;
      this.reserve(258);
      if (symbol < 256) this.output[this.filled++] = symbol;
      else {
        const length = LENGTHS.from[symbol - 257]! + this.take(LENGTHS.extra[symbol - 257] ?? 0);
        const distanceCode = this.symbol(distances);
        const distance = DISTANCES.from[distanceCode]! + this.take(DISTANCES.extra[distanceCode]!);
        const { output, filled } = this;
        for (let index = filled; index < filled + length; index++) output[index] = output[index - distance]!;
        this.filled += length;
      }
    }
  }
}

/** The decompressed bytes. */
export function inflate(bytes: Uint8Array): Uint8Array {
  return new Inflater(bytes).run();
}
