/** The numbers of highlighted text: how much each piece, word or sentence was looked at. */
import { doneSaid, joinSentences, placeSaid, scaleSaid, type Sentence } from "../captions";
import { largest, mean } from "../matrix";
import { Refusal } from "../cannot-draw";
import type { Scene, Site } from "../scene";
import type { State } from "../state";
import { shades } from "./heatmap";
import { labelAt, read, type Reading } from "./labelled-map";

const TOP = 8;

/** One unit of the text, its weight, and how strongly it is shaded. */
export interface Shade {
  text: string;
  spaced: boolean;
  weight: number;
  shade: number;
  start: number;
  stop: number;
}

export interface Shades {
  stream: string;
  words: Shade[];
  top: [string, number][];
  caption: string;
}

export function highlights(scene: Scene, state: State): Shades {
  const traced = scene.trace(state.trace);
  const site = traced.site(state.site);
  if (site.long) throw new Refusal("refuse.long");
  const found = deep(scene, state, site);
  const [weights, lineSaid] = line(found, state);
  const axis = state.axis === "row" ? site.columns : site.rows;
  const labels = state.axis === "row" ? found.columns : found.rows;
  const strong = shades({ rows: 1, columns: weights.length, data: weights }, state.scale);
  const stream = traced.stream(axis);
  const words = labels.map((each, index): Shade => {
    const first = axis.places[each.start]!;
    return {
      text: stream.text(first, axis.places[each.stop - 1]! + 1),
      spaced: stream.spaced(first),
      weight: weights[index]!,
      shade: strong[index]!,
      start: each.start,
      stop: each.stop,
    };
  });
  const order = [...weights.keys()].sort((one, two) => weights[two]! - weights[one]! || one - two);
  const top = order.slice(0, TOP).filter((index) => weights[index]! !== 0);
  const said = [depthSaid(scene, state, site), lineSaid, ...doneSaid(site, state)];
  said.push(scaleSaid(state, largest(weights)));
  return {
    stream: axis.stream,
    words,
    top: top.map((index) => [labels[index]!.text, weights[index]!]),
    caption: joinSentences(state.language, said),
  };
}

/** The map of the head, of the layer, or of all layers that have the same rows and columns. */
function deep(scene: Scene, state: State, site: Site): Reading {
  if (state.depth === "head") return read(scene, state);
  if (state.depth === "layer") return read(scene, { ...state, head: null });
  const alike = scene.trace(state.trace).alike(site);
  const readings = alike.map((each) => read(scene, { ...state, site: each.name, head: null }));
  return { ...readings[0]!, weights: mean(readings.map((each) => each.weights)) };
}

/** One row or column of the map, or the mean of all, and what it is. */
function line(found: Reading, state: State): [Float32Array, Sentence] {
  const { rows, columns, data } = found.weights;
  const byRow = state.axis === "row";
  const cell = (place: number, index: number): number =>
    byRow ? data[place * columns + index]! : data[index * columns + place]!;
  const length = byRow ? columns : rows;
  const weights = new Float32Array(length);
  if (state.place === null) {
    const count = byRow ? rows : columns;
    for (let index = 0; index < length; index++) {
      let sum = 0;
      for (let place = 0; place < count; place++) sum += cell(place, index);
      weights[index] = sum / count;
    }
    return [weights, ["caption.highlight.all"]];
  }
  const across = byRow ? found.rows : found.columns;
  const place = labelAt(across, state.place);
  for (let index = 0; index < length; index++) weights[index] = cell(place, index);
  return [weights, [`caption.highlight.${state.axis}`, { token: across[place]!.text }]];
}

function depthSaid(scene: Scene, state: State, site: Site): Sentence {
  if (state.depth === "all") {
    return ["caption.all", { sites: scene.trace(state.trace).alike(site).length }];
  }
  return placeSaid(site, state.depth === "head" ? state.head : null);
}
