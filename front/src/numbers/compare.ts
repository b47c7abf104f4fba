/** The numbers of a comparison: two maps over the same words, and one minus the other. */
import { processingSentences, joinSentences, siteSentence, type Sentence } from "../captions";
import { zeros, type Matrix } from "../matrix";
import { CannotDraw } from "../cannot-draw";
import type { Scene, Site, SceneTrace } from "../scene";
import type { Place, State } from "../state";
import type { Axis } from "../token-streams";
import { groupWeights, labelledMap, type Label, type LabelledMap } from "./labelled-map";

export interface CompareNumbers {
  first: Matrix;
  second: Matrix;
  difference: Matrix;
  rows: Label[];
  columns: Label[];
  names: [string, string];
  caption: string;
}

/** The place that a state is compared with. */
export function comparedPlace(scene: Scene, state: State): Place {
  const trace = scene.header.findings ? state.trace : scene.traces.length - 1;
  return state.other ?? { trace, site: state.site, head: state.head };
}

export function compareNumbers(scene: Scene, state: State): CompareNumbers {
  const states: [State, State] = [state, { ...state, ...comparedPlace(scene, state) }];
  const traces = states.map((each) => scene.trace(each.trace)) as [SceneTrace, SceneTrace];
  const sites = states.map((each, side) => traces[side]!.site(each.site)) as [Site, Site];
  if (sites.some((site) => site.long)) throw new CannotDraw("refuse.long");
  const aligned = !sameTokens(traces, sites);
  const [first, second] = aligned
    ? overWords(scene, states, sites)
    : [labelledMap(scene, states[0]), labelledMap(scene, states[1])];
  const names = states.map((each, side) =>
    joinSentences(state.language, [siteSentence(sites[side]!, each.head)]),
  ) as [string, string];
  const said: Sentence[] = [
    ["caption.compare", { first: names[0], second: names[1] }],
    ...processingSentences(sites[0], state),
  ];
  if (aligned) said.push(["caption.aligned"]);
  return {
    first: first.weights,
    second: second.weights,
    difference: minus(first.weights, second.weights),
    rows: first.rows,
    columns: first.columns,
    names,
    caption: joinSentences(state.language, said),
  };
}

function minus(first: Matrix, second: Matrix): Matrix {
  const found = zeros(first.rows, first.columns);
  for (let cell = 0; cell < found.data.length; cell++) {
    found.data[cell] = first.data[cell]! - second.data[cell]!;
  }
  return found;
}

/** Whether the two maps have the same tokens in rows and columns. */
function sameTokens(traces: [SceneTrace, SceneTrace], sites: [Site, Site]): boolean {
  const agree = (mine: Axis, its: Axis): boolean => {
    const texts = traces[0].stream(mine).texts;
    const others = traces[1].stream(its).texts;
    return (
      mine.length === its.length &&
      mine.places.every((place, index) => place === its.places[index]) &&
      texts.length === others.length &&
      texts.every((text, index) => text === others[index])
    );
  };
  return agree(sites[0].rows, sites[1].rows) && agree(sites[0].columns, sites[1].columns);
}

/** Both maps over the groups of tokens that both streams spell. */
function overWords(scene: Scene, states: [State, State], sites: [Site, Site]): [LabelledMap, LabelledMap] {
  if (states[0].trace === states[1].trace) throw new CannotDraw("refuse.different");
  const rows = groups(scene, states, [sites[0].rows, sites[1].rows]);
  const columns = groups(scene, states, [sites[0].columns, sites[1].columns]);
  const side = (index: 0 | 1): LabelledMap => {
    const weights = scene.weights(sites[index], states[index].head);
    const sides = { rows: rows[index], columns: columns[index] };
    return { weights: groupWeights(weights, sides.rows, sides.columns, true), ...sides };
  };
  return [side(0), side(1)];
}

/** The labels of both axes: groups that have tokens, not hidden, on both. */
function groups(scene: Scene, states: [State, State], axes: [Axis, Axis]): [Label[], Label[]] {
  const swapped = states[0].trace > states[1].trace;
  const [one, two] = swapped ? [axes[1], axes[0]] : axes;
  const streams = [scene.trace(0).stream(one), scene.trace(1).stream(two)] as const;
  const { hide } = states[0];
  const found: [Label[], Label[]] = [[], []];
  for (const [a0, a1, b0, b1] of scene.header.alignments?.[`${one.stream}|${two.stream}`] ?? []) {
    const runs = [run(one, a0, a1), run(two, b0, b1)] as const;
    const special = streams[0].special.has(a0) || streams[1].special.has(b0);
    const hidden =
      (hide.includes("special") && special) || (hide.includes("first") && (a0 === 0 || b0 === 0));
    if (hidden || !runs[0] || !runs[1]) continue;
    const text = streams[0].text(a0, a1) || streams[1].text(b0, b1);
    runs.forEach((each, side) => found[side]!.push({ text, ...each!, special }));
  }
  if (!found[0].length) throw new CannotDraw("refuse.common");
  return swapped ? [found[1], found[0]] : found;
}

function run(axis: Axis, start: number, stop: number): { start: number; stop: number } | null {
  const inside = (place: number): boolean => start <= place && place < stop;
  const first = axis.places.findIndex(inside);
  return first < 0 ? null : { start: first, stop: axis.places.findLastIndex(inside) + 1 };
}
