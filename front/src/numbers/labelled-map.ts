/** The map that a state looks at: without what is hidden, by pieces, words or sentences. */
import { labelOf } from "../captions";
import { zeros, type Matrix } from "../matrix";
import { Refusal } from "../cannot-draw";
import type { Scene, Site, Traced } from "../scene";
import type { State, Unit } from "../state";
import type { Axis, Stream } from "../token-streams";

const LEFT = 1e-9; // a row of which less is left is not renormalised

/** What a row or a column is called, and which rows or columns of the map it stands for. */
export interface Label {
  text: string;
  start: number;
  stop: number;
  special: boolean;
}

export interface Reading {
  weights: Matrix;
  rows: Label[];
  columns: Label[];
}

export function read(scene: Scene, state: State): Reading {
  const traced = scene.trace(state.trace);
  const site = traced.site(state.site);
  const weights = scene.weights(site, state.head);
  if (site.long) {
    const [high, wide] = site.header.cells;
    return {
      weights,
      rows: cells(traced.stream(site.rows), site.rows, high),
      columns: cells(traced.stream(site.columns), site.columns, wide),
    };
  }
  const rows = rowLabels(traced, site, state);
  const columns = columnLabels(traced, site, state);
  return { weights: joined(weights, rows, columns, state.hide.length > 0), rows, columns };
}

/** What the rows are called: by what they read or produced; special ones may be hidden. */
export function rowLabels(traced: Traced, site: Site, state: State): Label[] {
  const axis = labelOf(site, state) === "produced" ? site.produced! : site.rows;
  const same = site.rows.stream === site.columns.stream;
  const hidden =
    same && state.hide.includes("special") ? specials(traced, site.rows) : new Set<number>();
  return labels(traced.stream(axis), axis, state.unit, hidden);
}

/** What the columns are called, without those that are hidden. */
export function columnLabels(traced: Traced, site: Site, state: State): Label[] {
  const axis = site.columns;
  const hidden = state.hide.includes("special") ? specials(traced, axis) : new Set<number>();
  if (state.hide.includes("first")) {
    axis.places.forEach((place, index) => place === 0 && hidden.add(index));
  }
  const found = labels(traced.stream(axis), axis, state.unit, hidden);
  if (!found.length) throw new Refusal("refuse.hidden");
  return found;
}

/** Weights summed over the columns of each label and averaged over its rows. */
export function joined(
  weights: Matrix,
  rows: Label[],
  columns: Label[],
  renormalised: boolean,
): Matrix {
  if (!renormalised && rows.length === weights.rows && columns.length === weights.columns) {
    return weights;
  }
  const found = zeros(rows.length, columns.length);
  const sums = new Float64Array(columns.length);
  rows.forEach((label, place) => {
    sums.fill(0);
    for (let row = label.start; row < label.stop; row++) addRow(weights, row, columns, sums, renormalised);
    const base = place * columns.length;
    for (let column = 0; column < sums.length; column++) {
      found.data[base + column] = sums[column]! / (label.stop - label.start);
    }
  });
  return found;
}

function addRow(
  weights: Matrix,
  row: number,
  columns: Label[],
  sums: Float64Array,
  renormalised: boolean,
): void {
  const base = row * weights.columns;
  const line = columns.map(({ start, stop }) => {
    let sum = 0;
    for (let column = start; column < stop; column++) sum += weights.data[base + column]!;
    return sum;
  });
  const left = renormalised ? line.reduce((sum, each) => sum + each, 0) : 1;
  if (left < LEFT) return;
  for (let column = 0; column < line.length; column++) sums[column]! += line[column]! / left;
}

/** Cells of a long axis, each called by its first token. */
function cells(stream: Stream, axis: Axis, side: number): Label[] {
  const found: Label[] = [];
  for (let start = 0; start < axis.length; start += side) {
    const stop = Math.min(start + side, axis.length);
    found.push({ text: stream.texts[axis.places[start]!]!, start, stop, special: false });
  }
  return found;
}

/** Neighbours of one unit together; hidden rows or columns are in none. */
function labels(stream: Stream, axis: Axis, unit: Unit, hidden: Set<number>): Label[] {
  const units = stream.units(unit);
  const found: Label[] = [];
  let start = -1;
  for (let index = 0; index <= axis.length; index++) {
    const shown = index < axis.length && !hidden.has(index);
    const goesOn =
      shown && start >= 0 && units[axis.places[index]!] === units[axis.places[index - 1]!];
    if (start >= 0 && !goesOn) {
      found.push(labelOver(stream, axis, unit, start, index));
      start = -1;
    }
    if (shown && start < 0) start = index;
  }
  return found;
}

function labelOver(stream: Stream, axis: Axis, unit: Unit, start: number, stop: number): Label {
  const places = axis.places.subarray(start, stop);
  let [low, high] = [places[0]!, places[0]!];
  for (const place of places) {
    if (place < low) low = place;
    if (place > high) high = place;
  }
  const text = stream.unitText(unit, low, high + 1);
  return { text, start, stop, special: stream.special.has(places[0]!) };
}

function specials(traced: Traced, axis: Axis): Set<number> {
  const { special } = traced.stream(axis);
  const found = new Set<number>();
  axis.places.forEach((place, index) => special.has(place) && found.add(index));
  return found;
}

/** Which of the labels stands for a row or column of the map. */
export function labelAt(labels: Label[], place: number): number {
  const found = labels.findIndex((each) => each.start <= place && place < each.stop);
  if (found < 0) throw new Refusal("refuse.place");
  return found;
}
