/**
 * The numbers of the comparison: two maps over the same tokens or words, and the first subtract the second.
 * The same arithmetic as `regard.views.kinds.compare` in Python.
 */
import { CannotDraw } from "../cannot-draw";
import { processingSentences, joinSentences, siteSentence, type Sentence } from "../captions";
import { zeros, type Matrix } from "../matrix";
import type { Scene, SceneSite, SceneTrace } from "../scene";
import type { MapReference, ViewState } from "../state";
import type { Axis } from "../token-streams";
import { poolWeights, labelledMap, type Label, type LabelledMap } from "./labelled-map";

export interface CompareNumbers {
  first: Matrix;
  second: Matrix;
  difference: Matrix;
  rows: Label[];
  columns: Label[];
  names: [string, string];
  caption: string;
}

/** The map that the state's map is compared with: the chosen one, or the same site and head in the last trace. */
export function comparedMap(scene: Scene, state: ViewState): MapReference {
  const trace = scene.header.findings ? state.trace : scene.traces.length - 1;
  return state.other ?? { trace, site: state.site, head: state.head };
}

export function compareNumbers(scene: Scene, state: ViewState): CompareNumbers {
  const states: [ViewState, ViewState] = [state, { ...state, ...comparedMap(scene, state) }];
  const traces = states.map(({ trace }) => scene.trace(trace)) as [SceneTrace, SceneTrace];
  const sites = states.map(({ site }, side) => traces[side]!.site(site)) as [SceneSite, SceneSite];
  if (sites.some((site) => site.long)) throw new CannotDraw("refuse.long");
  const aligned = !sameTokens(traces, sites);
  const [first, second] = aligned
    ? alignedMaps(scene, states, sites)
    : [labelledMap(scene, states[0]), labelledMap(scene, states[1])];
  const names = states.map(({ head }, side) =>
    joinSentences(state.language, [siteSentence(sites[side]!, head)]),
  ) as [string, string];
  const sentences: Sentence[] = [
    ["caption.compare", { first: names[0], second: names[1] }],
    ...processingSentences(sites[0], state),
  ];
  if (aligned) sentences.push(["caption.aligned"]);
  return {
    first: first.weights,
    second: second.weights,
    difference: subtract(first.weights, second.weights),
    rows: first.rows,
    columns: first.columns,
    names,
    caption: joinSentences(state.language, sentences),
  };
}

function subtract(first: Matrix, second: Matrix): Matrix {
  const difference = zeros(first.rows, first.columns);
  for (let cell = 0; cell < difference.data.length; cell++) {
    difference.data[cell] = first.data[cell]! - second.data[cell]!;
  }
  return difference;
}

/** Whether the two maps have the same tokens in rows and columns. */
function sameTokens(traces: [SceneTrace, SceneTrace], sites: [SceneSite, SceneSite]): boolean {
  const sameAxis = (mine: Axis, theirs: Axis): boolean => {
    const texts = traces[0].stream(mine).texts;
    const others = traces[1].stream(theirs).texts;
    return (
      mine.length === theirs.length &&
      mine.places.every((place, index) => place === theirs.places[index]) &&
      texts.length === others.length &&
      texts.every((text, index) => text === others[index])
    );
  };
  return sameAxis(sites[0].rows, sites[1].rows) && sameAxis(sites[0].columns, sites[1].columns);
}

/** Both maps over groups of tokens that spell the same text in both traces; their tokenizers may cut it differently. */
function alignedMaps(scene: Scene, states: [ViewState, ViewState], sites: [SceneSite, SceneSite]): [LabelledMap, LabelledMap] {
  if (states[0].trace === states[1].trace) throw new CannotDraw("refuse.different");
  const rows = alignedLabels(scene, states, [sites[0].rows, sites[1].rows]);
  const columns = alignedLabels(scene, states, [sites[0].columns, sites[1].columns]);
  const side = (index: 0 | 1): LabelledMap => {
    const weights = scene.weights(sites[index], states[index].head);
    const sides = { rows: rows[index], columns: columns[index] };
    return { weights: poolWeights(weights, sides.rows, sides.columns, true), ...sides };
  };
  return [side(0), side(1)];
}

/** The labels of both axes: one for each group of aligned tokens that is visible on both. */
function alignedLabels(scene: Scene, states: [ViewState, ViewState], axes: [Axis, Axis]): [Label[], Label[]] {
  // alignments are stored from trace 0 to trace 1, whichever of them is shown first
  const swapped = states[0].trace > states[1].trace;
  const [one, two] = swapped ? [axes[1], axes[0]] : axes;
  const streams = [scene.trace(0).stream(one), scene.trace(1).stream(two)] as const;
  const { hide } = states[0];
  const labels: [Label[], Label[]] = [[], []];
  for (const [a0, a1, b0, b1] of scene.header.alignments?.[`${one.stream}|${two.stream}`] ?? []) {
    const ranges = [indexRange(one, a0, a1), indexRange(two, b0, b1)] as const;
    const special = streams[0].special.has(a0) || streams[1].special.has(b0);
    const hidden =
      (hide.includes("special") && special) || (hide.includes("first") && (a0 === 0 || b0 === 0));
    if (hidden || !ranges[0] || !ranges[1]) continue;
    const text = streams[0].text(a0, a1) || streams[1].text(b0, b1);
    ranges.forEach((range, side) => labels[side]!.push({ text, ...range!, special }));
  }
  if (!labels[0].length) throw new CannotDraw("refuse.common");
  return swapped ? [labels[1], labels[0]] : labels;
}

/** The rows or columns whose tokens lie in [start, stop) of the stream; null if there are none. */
function indexRange(axis: Axis, start: number, stop: number): { start: number; stop: number } | null {
  const inside = (place: number): boolean => start <= place && place < stop;
  const first = axis.places.findIndex(inside);
  return first < 0 ? null : { start: first, stop: axis.places.findLastIndex(inside) + 1 };
}
