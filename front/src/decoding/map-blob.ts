/**
 * Decodes the weights of one map from its decompressed blob (FORMAT.md, section 2).
 *
 * A blob says its code (levels, differences of levels, or factors), its support (which columns each row has: all, causal,
 * or a run per row), rows, columns and largest weight; then come the weights of the support, row by row.
 */
import { zeros, type Matrix } from "../matrix";
import { readFactors } from "./factors";

/** The columns that each row has weights for: [start, stop). Others are 0. */
export interface Support {
  starts: Int32Array;
  stops: Int32Array;
}

const FACTORS = 1;
const DIFFERENCES = 2;
const CAUSAL = 1;
const RUNS = 2;

const LOW = 28; // levels up to this one have coarse steps: weights below 0.1% are shown as "< 0.1%"

function weightOf(level: number): number {
  if (level === 0) return 0;
  return 0.001 * Math.exp((level <= LOW ? 0.25 : 0.0551) * (level - LOW - 0.5));
}

/** The weight of each level: the steps of a logarithmic scale (FORMAT.md, section 2, "Levels"). */
export const LEVELS = Float32Array.from({ length: 256 }, (_, level) => weightOf(level));

/** The weights of a map. */
export function decode(bytes: Uint8Array): Matrix {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const rank = view.getUint16(2, true);
  const map = zeros(view.getUint32(4, true), view.getUint32(8, true));
  const [support, start] = readSupport(view, map, bytes[1]!);
  if (bytes[0] === FACTORS) readFactors(view, start, rank, map, support);
  else readLevels(bytes.subarray(start), map, support, bytes[0] === DIFFERENCES);
  capWeights(map.data, view.getFloat32(12, true));
  return map;
}

/** The support, and where the weights begin. */
function readSupport(view: DataView, map: Matrix, kind: number): [Support, number] {
  const starts = new Int32Array(map.rows);
  const stops = new Int32Array(map.rows).fill(map.columns);
  let at = 16;
  if (kind === CAUSAL) {
    const offset = view.getInt32(at, true);
    at += 4;
    for (let row = 0; row < map.rows; row++) {
      stops[row] = Math.max(0, Math.min(row + offset + 1, map.columns));
    }
  } else if (kind === RUNS) {
    for (const side of [starts, stops]) {
      let last = 0;
      for (let row = 0; row < map.rows; row++, at += 4) side[row] = last += view.getInt32(at, true);
    }
  }
  return [{ starts, stops }, at];
}

/** Weights from one byte each. */
function readLevels(bytes: Uint8Array, map: Matrix, support: Support, differences: boolean): void {
  if (differences) bytes = undoPrediction(bytes, map, support);
  let at = 0;
  for (let row = 0; row < map.rows; row++) {
    const base = row * map.columns;
    for (let column = support.starts[row]!; column < support.stops[row]!; column++) {
      map.data[base + column] = LEVELS[bytes[at++]!]!;
    }
  }
}

/**
 * Levels from their differences to a prediction. The prediction is up + left - corner, kept between `up` and `left`
 * (the median predictor of lossless image codecs), so that smooth maps become small numbers.
 */
function undoPrediction(bytes: Uint8Array, map: Matrix, support: Support): Uint8Array {
  const levels = new Uint8Array(bytes.length);
  let above = new Uint8Array(map.columns + 1);
  let here = new Uint8Array(map.columns + 1);
  let at = 0;
  for (let row = 0; row < map.rows; row++) {
    here.fill(0);
    for (let column = support.starts[row]!; column < support.stops[row]!; column++) {
      const up = above[column + 1]!;
      const left = here[column]!;
      const low = up < left ? up : left;
      const high = up < left ? left : up;
      const prediction = Math.min(high, Math.max(low, up + left - above[column]!));
      levels[at] = here[column + 1] = (bytes[at]! + prediction) & 255;
      at++;
    }
    [above, here] = [here, above];
  }
  return levels;
}

/** Rounding may lift a weight above the largest one of the map; cut it down. */
function capWeights(data: Float32Array, most: number): void {
  for (let index = 0; index < data.length; index++) {
    if (data[index]! > most) data[index] = most;
  }
}
