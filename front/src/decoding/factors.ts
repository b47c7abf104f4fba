/**
 * Decodes weights that were stored as factors (FORMAT.md, section 2, "Factors").
 *
 * Attention weights are exp(query . key) up to a constant for each row, so the logarithm of a map has a low rank:
 * log w_ij = r_i + c_j + sum over k of left_ik right_kj, with a few corrections. That is far fewer numbers than weights.
 */
import type { Matrix } from "../matrix";
import type { Support } from "./map-blob";

const CORRECTION = 0.04;

/** Reads numbers one after the other, little-endian. */
class Reader {
  constructor(
    readonly view: DataView,
    public at: number,
  ) {}

  float(): number {
    this.at += 4;
    return this.view.getFloat32(this.at - 4, true);
  }

  bytes(length: number): Uint8Array {
    this.at += length;
    return new Uint8Array(this.view.buffer, this.view.byteOffset + this.at - length, length);
  }

  signed(length: number): Int8Array {
    this.at += length;
    return new Int8Array(this.view.buffer, this.view.byteOffset + this.at - length, length);
  }

  /** One number for each row or column: base + step * n, with n of 16 bits as a plane of low and a plane of high bytes. */
  line(length: number): Float32Array {
    const base = this.float();
    const step = this.float();
    const low = this.bytes(length);
    const high = this.bytes(length);
    return Float32Array.from(low, (value, index) => base + step * (value | (high[index]! << 8)));
  }
}

/** Fill the map with exp of its logarithms within the support, and with 0 outside. */
export function readFactors(
  view: DataView,
  start: number,
  rank: number,
  map: Matrix,
  support: Support,
): void {
  const reader = new Reader(view, start);
  const rowLine = reader.line(map.rows);
  const columnLine = reader.line(map.columns);
  const steps = Float32Array.from({ length: rank }, () => reader.float());
  const shifts = reader.bytes(2 * rank);
  const highs = [reader.signed(rank * map.rows), reader.signed(rank * map.columns)];
  const left = lowBits(reader, highs[0]!, map.rows, shifts.subarray(0, rank));
  const right = lowBits(reader, highs[1]!, map.columns, shifts.subarray(rank));
  const [one, two] = [transpose(left, map.rows, steps), transpose(right, map.columns, null)];
  multiply(map, support, { rowLine, columnLine, left: one, right: two, rank });
  applyCorrections(reader, map.data);
  exponentiate(map, support);
}

/** The integers (high << shift) + low; the low bits come as one plane of bits for each bit. */
function lowBits(reader: Reader, high: Int8Array, size: number, shifts: Uint8Array): Float32Array {
  const result = new Float32Array(high.length);
  shifts.forEach((shift, k) => {
    const base = k * size;
    for (let index = 0; index < size; index++) result[base + index] = high[base + index]! * 2 ** shift;
    for (let bit = 0; bit < shift; bit++) {
      const plane = reader.bytes((size + 7) >> 3);
      for (let index = 0; index < size; index++) {
        if ((plane[index >> 3]! >> (index & 7)) & 1) result[base + index]! += 2 ** bit;
      }
    }
  });
  return result;
}

interface Parts {
  rowLine: Float32Array;
  columnLine: Float32Array;
  left: Float64Array;
  right: Float64Array;
  rank: number;
}

/** Transpose to one row of factors for each row or column of the map, times the steps: the inner loop reads them in order. */
function transpose(factors: Float32Array, size: number, steps: Float32Array | null): Float64Array {
  const rank = factors.length / Math.max(1, size);
  const result = new Float64Array(factors.length);
  for (let k = 0; k < rank; k++) {
    const step = steps ? steps[k]! : 1;
    for (let index = 0; index < size; index++) result[index * rank + k] = step * factors[k * size + index]!;
  }
  return result;
}

/** Compute the logarithms, two rows by four columns at a time: eight sums stay in registers. */
function multiply(map: Matrix, { starts, stops }: Support, parts: Parts): void {
  for (let row = 0; row < map.rows; row += 2) {
    const next = Math.min(row + 1, map.rows - 1);
    const from = Math.min(starts[row]!, starts[next]!);
    const to = Math.max(stops[row]!, stops[next]!);
    if (map.columns < 4) for (const each of [row, next]) multiplyRow(map, parts, each);
    else multiplyTwoRows(map, parts, row, next, from, to);
  }
}

/** One row of a map with fewer than four columns. */
function multiplyRow({ columns, data }: Matrix, parts: Parts, row: number): void {
  const { left, right, rank, rowLine, columnLine } = parts;
  for (let column = 0; column < columns; column++) {
    let sum = rowLine[row]! + columnLine[column]!;
    for (let k = 0; k < rank; k++) sum += left[row * rank + k]! * right[column * rank + k]!;
    data[row * columns + column] = sum;
  }
}

function multiplyTwoRows(map: Matrix, parts: Parts, row: number, next: number, from: number, to: number): void {
  const { columns, data } = map;
  const { left, right, rank, rowLine, columnLine } = parts;
  const [one, two, high, low] = [row * rank, next * rank, row * columns, next * columns];
  const [first, second] = [rowLine[row]!, rowLine[next]!];
  for (let at = from; at < to; at += 4) {
    const column = Math.min(at, columns - 4); // the last four overlap those before, instead of a slower loop for the rest
    const a = column * rank;
    const b = a + rank;
    const c = b + rank;
    const d = c + rank;
    let a1 = 0, b1 = 0, c1 = 0, d1 = 0, a2 = 0, b2 = 0, c2 = 0, d2 = 0;
    for (let k = 0; k < rank; k++) {
      const up = left[one + k]!;
      const down = left[two + k]!;
      const ra = right[a + k]!;
      const rb = right[b + k]!;
      const rc = right[c + k]!;
      const rd = right[d + k]!;
      a1 += up * ra;
      b1 += up * rb;
      c1 += up * rc;
      d1 += up * rd;
      a2 += down * ra;
      b2 += down * rb;
      c2 += down * rc;
      d2 += down * rd;
    }
    data[high + column] = first + columnLine[column]! + a1;
    data[high + column + 1] = first + columnLine[column + 1]! + b1;
    data[high + column + 2] = first + columnLine[column + 2]! + c1;
    data[high + column + 3] = first + columnLine[column + 3]! + d1;
    data[low + column] = second + columnLine[column]! + a2;
    data[low + column + 1] = second + columnLine[column + 1]! + b2;
    data[low + column + 2] = second + columnLine[column + 2]! + c2;
    data[low + column + 3] = second + columnLine[column + 3]! + d2;
  }
}

/** Add the corrections of single cells, where the low rank is not exact enough. */
function applyCorrections(reader: Reader, data: Float32Array): void {
  const count = reader.view.getUint32(reader.at, true);
  reader.at += 4;
  const planes = [0, 1, 2, 3].map(() => reader.bytes(count));
  const sizes = reader.signed(count);
  let cell = 0;
  for (let index = 0; index < count; index++) {
    cell += planes[0]![index]! + planes[1]![index]! * 2 ** 8;
    cell += planes[2]![index]! * 2 ** 16 + planes[3]![index]! * 2 ** 24;
    data[cell]! += CORRECTION * sizes[index]!;
  }
}

const FINE = 2048; // table entries between one power of two and the next
const LOWEST = 200; // powers of two below one that the table has; smaller results are 0
const POWERS = Float64Array.from({ length: LOWEST + 60 }, (_, index) => 2 ** (index - LOWEST));
const BETWEEN = Float64Array.from({ length: FINE }, (_, index) => 2 ** (index / FINE));

/** exp by tables, exact to 2e-8 and ten times as fast as Math.exp. */
function fastExp(logarithm: number): number {
  const scaled = Math.min(logarithm * Math.LOG2E + LOWEST, LOWEST + 59);
  if (!(scaled > 0)) return 0;
  const whole = scaled | 0;
  const rest = (scaled - whole) * FINE;
  const step = rest | 0;
  return POWERS[whole]! * BETWEEN[step]! * (1 + (rest - step) * (Math.LN2 / FINE));
}

function exponentiate({ rows, columns, data }: Matrix, { starts, stops }: Support): void {
  for (let row = 0; row < rows; row++) {
    const base = row * columns;
    const [start, stop] = [base + starts[row]!, base + Math.max(starts[row]!, stops[row]!)];
    data.fill(0, base, start);
    data.fill(0, stop, base + columns);
    for (let cell = start; cell < stop; cell++) data[cell] = fastExp(data[cell]!);
  }
}
