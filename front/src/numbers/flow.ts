/**
 * The numbers of the flow view: lines from token to token, only those above a threshold.
 *
 * The same arithmetic as `regard.views.kinds.flow` in Python; tests/views/vectors.json holds examples for both.
 */
import { CannotDraw } from "../cannot-draw";
import { processingSentences, joinSentences, percent, siteSentence, type Sentence } from "../captions";
import { zeros, type Matrix } from "../matrix";
import type { Scene, SceneSite } from "../scene";
import type { ViewState } from "../state";
import { labelAt, labelledMap, type Label, type LabelledMap } from "./labelled-map";

// Where the reader sets no threshold, it is the first of these that leaves few enough lines.
const THRESHOLDS = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5];
const LOWER = [0.01, 0.005, 0.002, 0.001]; // tried on long texts, whose weights are spread over many tokens
const LINES_PER_TOKEN = 4; // more would hide one another
const FEWEST = 12; // lines that a long text should have, if its weights allow it

/** A line from label `start` of one column of tokens, `level`, to label `stop` of the next; `head` is null for the mean. */
export interface FlowLine {
  level: number;
  start: number;
  stop: number;
  weight: number;
  head: number | null;
}

/** Columns of tokens, the lines linesOfHeads them from weak to linesAbove, and how many weights above 0 there are in all. */
export interface FlowNumbers {
  levels: Label[][];
  lines: FlowLine[];
  threshold: number;
  count: number;
  caption: string;
}

export function flowNumbers(scene: Scene, state: ViewState): FlowNumbers {
  const site = scene.trace(state.trace).site(state.site);
  if (site.long) throw new CannotDraw("refuse.long");
  return state.span === "all" ? linesAcrossLayers(scene, state, site) : linesOfHeads(scene, state, site);
}

/** The heads whose lines are drawn: the chosen one, those that are switched on, or null for the mean over heads. */
export function headsDrawn(site: SceneSite, state: ViewState): (number | null)[] {
  if (state.head !== null || state.span !== "layers") return [state.head];
  return state.heads ?? Array.from({ length: site.heads }, (_, head) => head);
}

/** Lines from queries to keys in one layer, for each head that is drawn. */
function linesOfHeads(scene: Scene, state: ViewState, site: SceneSite): FlowNumbers {
  const heads = headsDrawn(site, state);
  if (!heads.length) throw new CannotDraw("refuse.heads");
  const labelledMaps = heads.map((head) => labelledMap(scene, { ...state, head }));
  const { rows, columns } = labelledMaps[0]!;
  const weightMaps = labelledMaps.map((each) => pinnedWeights(each, state));
  const threshold = chooseThreshold(weightMaps, state, Math.max(rows.length, columns.length));
  const lines = weightMaps.flatMap((map, index) => linesAbove(map, threshold, 0, heads[index]!));
  const sentences: Sentence[] = [
    heads.length === 1
      ? siteSentence(site, heads[0]!)
      : ["caption.some", { site: site.name, heads: heads.length }],
    [`caption.flow.${state.span}`],
    ...processingSentences(site, state),
  ];
  return sortedLines([rows, columns], lines, { threshold, count: countPositive(weightMaps), sentences, state });
}

/**
 * Lines through all layers to one token of the last one, by default its last token.
 *
 * `reached` is how much attention arrives at each token of a layer; it starts as 1 at the chosen token of the last layer,
 * and a line carries reached[from] * weight one layer down.
 */
function linesAcrossLayers(scene: Scene, state: ViewState, site: SceneSite): FlowNumbers {
  if (!site.rows.equals(site.columns)) throw new CannotDraw("refuse.across");
  const sites = scene.trace(state.trace).alike(site);
  const labelledMaps = [...sites].reverse().map((each) => labelledMap(scene, { ...state, site: each.name }));
  const labels = labelledMaps[0]!.columns;
  // "hide the first token" hides a column, never a row, so rows and columns may differ in number
  const keep = labels.map((label) => labelledMaps[0]!.rows.findIndex((row) => same(row, label)));
  const token = labelAt(labels, state.place ?? labels[labels.length - 1]!.stop - 1);
  let reached = new Float64Array(labels.length);
  reached[token] = 1;
  const flows: Matrix[] = [];
  for (const { weights } of labelledMaps) {
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
  const threshold = chooseThreshold(flows, state, Math.floor((labels.length * flows.length) / 2));
  const lines = flows.flatMap((flow, level) => linesAbove(flow, threshold, level, state.head));
  const sentences: Sentence[] = [
    state.head === null ? ["caption.all", { sites: sites.length }] : siteSentence(site, state.head),
    ["caption.flow.all", { token: labels[token]!.text }],
    ...processingSentences(site, state),
  ];
  const levels = Array.from({ length: flows.length + 1 }, () => labels);
  return sortedLines(levels, lines, { threshold, count: countPositive(flows), sentences, state });
}

/** Whether two labels stand for the same tokens. */
function same(one: Label, two: Label): boolean {
  return one.start === two.start && one.stop === two.stop && one.text === two.text;
}

/** The weights of the pinned row or column, all others zero; all weights if no token is pinned. */
function pinnedWeights({ weights, rows, columns }: LabelledMap, state: ViewState): Matrix {
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

/** The smallest weight that is drawn: the reader's, or one that leaves a readable number of lines. */
function chooseThreshold(weightMaps: Matrix[], state: ViewState, tokens: number): number {
  if (state.threshold !== null) return Math.max(state.threshold, 1e-9);
  const counts = (least: number): number =>
    weightMaps.reduce((sum, map) => sum + countAbove(map, least), 0);
  let chosen = THRESHOLDS.find((candidate) => counts(candidate) <= LINES_PER_TOKEN * tokens) ?? THRESHOLDS.at(-1)!;
  for (const lower of LOWER) {
    if (chosen >= THRESHOLDS[1]! || counts(chosen) >= Math.min(FEWEST, Math.floor(tokens / 8))) break;
    if (counts(lower) <= LINES_PER_TOKEN * tokens) chosen = lower;
  }
  return chosen;
}

/** How many weights are at least `least`; compared in single precision, so that a weight equal to the threshold counts. */
function countAbove({ data }: Matrix, least: number): number {
  let count = 0;
  const bound = Math.fround(least);
  for (let cell = 0; cell < data.length; cell++) if (data[cell]! >= bound) count++;
  return count;
}

function countPositive(weightMaps: Matrix[]): number {
  let count = 0;
  for (const { data } of weightMaps) {
    for (let cell = 0; cell < data.length; cell++) if (data[cell]! > 0) count++;
  }
  return count;
}

/** The weights of at least `threshold` as lines from column `level` to the next. */
function linesAbove(map: Matrix, threshold: number, level: number, head: number | null): FlowLine[] {
  const lines: FlowLine[] = [];
  const bound = Math.fround(threshold);
  for (let cell = 0; cell < map.data.length; cell++) {
    const weight = map.data[cell]!;
    if (weight < bound) continue;
    lines.push({ level, start: Math.floor(cell / map.columns), stop: cell % map.columns, weight, head });
  }
  return lines;
}

/** What the caption says, and the state whose language it is said in. */
interface CaptionParts {
  threshold: number;
  count: number;
  sentences: Sentence[];
  state: ViewState;
}

/** The numbers of the view, lines sorted, with the caption. */
function sortedLines(levels: Label[][], lines: FlowLine[], { threshold, count, sentences, state }: CaptionParts): FlowNumbers {
  const values = { threshold: percent(threshold), shown: lines.length, all: count };
  const caption = joinSentences(state.language, [...sentences, ["caption.threshold", values]]);
  // strong lines are drawn last, over weak ones
  lines.sort((one, two) => one.weight - two.weight);
  return { levels, lines, threshold, count, caption };
}
