/**
 * The map that a state selects, with groupLabels for its rows and columns: hidden tokens visible out, tokens grouped into words
 * or sentences on demand. The same arithmetic as `regard.views.labelled_map` in Python (FORMAT.md, section 8).
 */
import { CannotDraw } from "../cannot-draw";
import { rowNaming } from "../captions";
import { zeros, type Matrix } from "../matrix";
import type { Scene, SceneSite, SceneTrace } from "../scene";
import type { ViewState, Unit } from "../state";
import type { Axis, TokenStream } from "../token-streams";

const LEAST_ROW_SUM = 1e-9; // a row whose visible weights sum to less stays zero: dividing by it would only show noise

/** The text of a row or column, and which rows or columns of the stored map it groups: [start, stop). */
export interface Label {
  text: string;
  start: number;
  stop: number;
  special: boolean;
}

export interface LabelledMap {
  weights: Matrix;
  rows: Label[];
  columns: Label[];
}

export function labelledMap(scene: Scene, state: ViewState): LabelledMap {
  const sceneTrace = scene.trace(state.trace);
  const site = sceneTrace.site(state.site);
  const weights = scene.weights(site, state.head);
  if (site.long) {
    const [high, wide] = site.header.cells;
    return {
      weights,
      rows: cellLabels(sceneTrace.stream(site.rows), site.rows, high),
      columns: cellLabels(sceneTrace.stream(site.columns), site.columns, wide),
    };
  }
  const rows = rowLabels(sceneTrace, site, state);
  const columns = columnLabels(sceneTrace, site, state);
  return { weights: poolWeights(weights, rows, columns, state.hide.length > 0), rows, columns };
}

/** The labels of the rows: input or output tokens; special tokens are left out if they are hidden and also are columns. */
export function rowLabels(sceneTrace: SceneTrace, site: SceneSite, state: ViewState): Label[] {
  const axis = rowNaming(site, state) === "produced" ? site.produced! : site.rows;
  const same = site.rows.stream === site.columns.stream;
  const hidden =
    same && state.hide.includes("special") ? specialIndices(sceneTrace, site.rows) : new Set<number>();
  return groupLabels(sceneTrace.stream(axis), axis, state.unit, hidden);
}

/** The labels of the columns, without hidden tokens. */
export function columnLabels(sceneTrace: SceneTrace, site: SceneSite, state: ViewState): Label[] {
  const axis = site.columns;
  const hidden = state.hide.includes("special") ? specialIndices(sceneTrace, axis) : new Set<number>();
  if (state.hide.includes("first")) {
    axis.places.forEach((place, index) => place === 0 && hidden.add(index));
  }
  const visible = groupLabels(sceneTrace.stream(axis), axis, state.unit, hidden);
  if (!visible.length) throw new CannotDraw("refuse.hidden");
  return visible;
}

/** Weights summed over the columns of each label and averaged over its rows, so that rows still sum to one. */
export function poolWeights(
  weights: Matrix,
  rows: Label[],
  columns: Label[],
  renormalised: boolean,
): Matrix {
  if (!renormalised && rows.length === weights.rows && columns.length === weights.columns) {
    return weights;
  }
  const grouped = zeros(rows.length, columns.length);
  const sums = new Float64Array(columns.length);
  rows.forEach((label, place) => {
    sums.fill(0);
    for (let row = label.start; row < label.stop; row++) addRow(weights, row, columns, sums, renormalised);
    const base = place * columns.length;
    for (let column = 0; column < sums.length; column++) {
      grouped.data[base + column] = sums[column]! / (label.stop - label.start);
    }
  });
  return grouped;
}

/** Add one row of the map, summed by label and divided by its visible weight, to `sums`. */
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
  const visible = renormalised ? line.reduce((sum, weight) => sum + weight, 0) : 1;
  if (visible < LEAST_ROW_SUM) return;
  for (let column = 0; column < line.length; column++) sums[column]! += line[column]! / visible;
}

/** Labels for the cells of a long axis, each with the text of its first token. */
function cellLabels(stream: TokenStream, axis: Axis, side: number): Label[] {
  const result: Label[] = [];
  for (let start = 0; start < axis.length; start += side) {
    const stop = Math.min(start + side, axis.length);
    result.push({ text: stream.texts[axis.places[start]!]!, start, stop, special: false });
  }
  return result;
}

/** Labels that group neighbours of one unit (token, word or sentence); hidden rows or columns get none. */
function groupLabels(stream: TokenStream, axis: Axis, unit: Unit, hidden: Set<number>): Label[] {
  const units = stream.units(unit);
  const result: Label[] = [];
  let start = -1;
  for (let index = 0; index <= axis.length; index++) {
    const shown = index < axis.length && !hidden.has(index);
    const continues =
      shown && start >= 0 && units[axis.places[index]!] === units[axis.places[index - 1]!];
    if (start >= 0 && !continues) {
      result.push(labelOver(stream, axis, unit, start, index));
      start = -1;
    }
    if (shown && start < 0) start = index;
  }
  return result;
}

/** The label of rows or columns [start, stop); their places may be out of order, so its text spans all of them. */
function labelOver(stream: TokenStream, axis: Axis, unit: Unit, start: number, stop: number): Label {
  const places = axis.places.subarray(start, stop);
  let [low, high] = [places[0]!, places[0]!];
  for (const place of places) {
    if (place < low) low = place;
    if (place > high) high = place;
  }
  const text = stream.unitText(unit, low, high + 1);
  return { text, start, stop, special: stream.special.has(places[0]!) };
}

/** Which rows or columns are special tokens. */
function specialIndices(sceneTrace: SceneTrace, axis: Axis): Set<number> {
  const { special } = sceneTrace.stream(axis);
  const indices = new Set<number>();
  axis.places.forEach((place, index) => special.has(place) && indices.add(index));
  return indices;
}

/** The index of the label that a row or column of the stored map belongs to. */
export function labelAt(labels: Label[], place: number): number {
  const index = labels.findIndex(({ start, stop }) => start <= place && place < stop);
  if (index < 0) throw new CannotDraw("refuse.place");
  return index;
}
