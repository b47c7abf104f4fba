/** The numbers of a flow: lines from token to token, and only those that matter. */
import { doneSaid, joinSentences, percent, placeSaid, type Sentence } from "../captions";
import { zeros, type Matrix } from "../matrix";
import { Refusal } from "../cannot-draw";
import type { Scene, Site } from "../scene";
import type { State } from "../state";
import { labelAt, read, type Label, type Reading } from "./labelled-map";

const THRESHOLDS = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5];
const LOWER = [0.01, 0.005, 0.002, 0.001]; // where weights are spread over a long text
const USUAL = 4; // lines for each token that a picture can hold
const FEW = 12; // lines that a picture of many tokens should have

/** A line between a label of one column of tokens and one of the next, for a head or all. */
export interface Line {
  level: number;
  start: number;
  stop: number;
  weight: number;
  head: number | null;
}

export interface Lines {
  levels: Label[][];
  lines: Line[];
  threshold: number;
  count: number;
  caption: string;
}

export function lines(scene: Scene, state: State): Lines {
  const site = scene.trace(state.trace).site(state.site);
  if (site.long) throw new Refusal("refuse.long");
  return state.span === "all" ? across(scene, state, site) : between(scene, state, site);
}

/** The heads whose lines are drawn: one, those that are on, or the mean (null). */
export function drawnHeads(site: Site, state: State): (number | null)[] {
  if (state.head !== null || state.span !== "layers") return [state.head];
  return state.heads ?? Array.from({ length: site.heads }, (_, head) => head);
}

/** Lines from queries to keys, of each head that is switched on, or of the mean. */
function between(scene: Scene, state: State, site: Site): Lines {
  const heads = drawnHeads(site, state);
  if (!heads.length) throw new Refusal("refuse.heads");
  const readings = heads.map((head) => read(scene, { ...state, head }));
  const { rows, columns } = readings[0]!;
  const shown = readings.map((each) => pinned(each, state));
  const threshold = thresholdOf(shown, state, Math.max(rows.length, columns.length));
  const found = shown.flatMap((map, index) => strong(map, threshold, 0, heads[index]!));
  const said: Sentence[] = [
    heads.length === 1
      ? placeSaid(site, heads[0]!)
      : ["caption.some", { site: site.name, heads: heads.length }],
    [`caption.flow.${state.span}`],
    ...doneSaid(site, state),
  ];
  return drawn([rows, columns], found, { threshold, count: positive(shown), said, state });
}

/** Lines that carry attention down to one token of the last layer. */
function across(scene: Scene, state: State, site: Site): Lines {
  if (!site.rows.equals(site.columns)) throw new Refusal("refuse.across");
  const sites = scene.trace(state.trace).alike(site);
  const readings = [...sites].reverse().map((each) => read(scene, { ...state, site: each.name }));
  const labels = readings[0]!.columns;
  // the first token may be hidden among the columns only
  const keep = labels.map((label) => readings[0]!.rows.findIndex((row) => same(row, label)));
  const token = labelAt(labels, state.place ?? labels[labels.length - 1]!.stop - 1);
  let reached = new Float64Array(labels.length);
  reached[token] = 1;
  const flows: Matrix[] = [];
  for (const { weights } of readings) {
    const flow = zeros(labels.length, labels.length);
    const next = new Float64Array(labels.length);
    keep.forEach((row, from) => {
      for (let to = 0; to < labels.length; to++) {
        const carried = reached[from]! * weights.data[row * weights.columns + to]!;
        flow.data[from * labels.length + to] = carried;
        next[to]! += carried;
      }
    });
    flows.push(flow);
    reached = next;
  }
  const threshold = thresholdOf(flows, state, Math.floor((labels.length * flows.length) / 2));
  const found = flows.flatMap((flow, level) => strong(flow, threshold, level, state.head));
  const said: Sentence[] = [
    state.head === null ? ["caption.all", { sites: sites.length }] : placeSaid(site, state.head),
    ["caption.flow.all", { token: labels[token]!.text }],
    ...doneSaid(site, state),
  ];
  const levels = Array.from({ length: flows.length + 1 }, () => labels);
  return drawn(levels, found, { threshold, count: positive(flows), said, state });
}

function same(one: Label, two: Label): boolean {
  return one.start === two.start && one.stop === two.stop && one.text === two.text;
}

/** The weights of the pinned row or column alone. */
function pinned({ weights, rows, columns }: Reading, state: State): Matrix {
  if (state.place === null) return weights;
  const kept = zeros(weights.rows, weights.columns);
  const byRow = state.axis === "row";
  const index = labelAt(byRow ? rows : columns, state.place);
  for (let other = 0; other < (byRow ? weights.columns : weights.rows); other++) {
    const cell = byRow ? index * weights.columns + other : other * weights.columns + index;
    kept.data[cell] = weights.data[cell]!;
  }
  return kept;
}

/** The least weight that is drawn; if none is asked for, one that leaves few lines. */
function thresholdOf(shown: Matrix[], state: State, tokens: number): number {
  if (state.threshold !== null) return Math.max(state.threshold, 1e-9);
  const counts = (least: number): number =>
    shown.reduce((sum, map) => sum + countFrom(map, least), 0);
  let found = THRESHOLDS.find((each) => counts(each) <= USUAL * tokens) ?? THRESHOLDS.at(-1)!;
  for (const lower of LOWER) {
    if (found >= THRESHOLDS[1]! || counts(found) >= Math.min(FEW, Math.floor(tokens / 8))) break;
    if (counts(lower) <= USUAL * tokens) found = lower;
  }
  return found;
}

/** In single precision, as the weights are: a weight of exactly the threshold counts. */
function countFrom({ data }: Matrix, least: number): number {
  let count = 0;
  const bound = Math.fround(least);
  for (let cell = 0; cell < data.length; cell++) if (data[cell]! >= bound) count++;
  return count;
}

function positive(shown: Matrix[]): number {
  let count = 0;
  for (const { data } of shown) {
    for (let cell = 0; cell < data.length; cell++) if (data[cell]! > 0) count++;
  }
  return count;
}

function strong(map: Matrix, threshold: number, level: number, head: number | null): Line[] {
  const found: Line[] = [];
  const bound = Math.fround(threshold);
  for (let cell = 0; cell < map.data.length; cell++) {
    const weight = map.data[cell]!;
    if (weight < bound) continue;
    found.push({ level, start: Math.floor(cell / map.columns), stop: cell % map.columns, weight, head });
  }
  return found;
}

interface Telling {
  threshold: number;
  count: number;
  said: Sentence[];
  state: State;
}

function drawn(levels: Label[][], found: Line[], { threshold, count, said, state }: Telling): Lines {
  const values = { threshold: percent(threshold), shown: found.length, all: count };
  const caption = joinSentences(state.language, [...said, ["caption.threshold", values]]);
  found.sort((one, two) => one.weight - two.weight);
  return { levels, lines: found, threshold, count, caption };
}
