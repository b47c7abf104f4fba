/**
 * The numbers of the highlight view: how much attention each token, word or sentence gives or receives.
 * The same arithmetic as `regard.views.kinds.highlight` in Python.
 */
import { CannotDraw } from "../cannot-draw";
import { processingSentences, joinSentences, siteSentence, scaleSentence, type Sentence } from "../captions";
import { largest, mean } from "../matrix";
import type { Scene, SceneSite } from "../scene";
import type { ViewState } from "../state";
import { shadeWeights } from "./heatmap";
import { labelAt, labelledMap, type LabelledMap } from "./labelled-map";

const LISTED = 8; // most attended tokens that are listed

/** A token, word or sentence with its weight and its shade from 0 to 1; it groups rows or columns [start, stop). */
export interface ShadedUnit {
  text: string;
  spaced: boolean;
  weight: number;
  shade: number;
  start: number;
  stop: number;
  marked: boolean;
}

export interface HighlightNumbers {
  stream: string;
  words: ShadedUnit[];
  top: [string, number][];
  caption: string;
}

export function highlightNumbers(scene: Scene, state: ViewState): HighlightNumbers {
  const sceneTrace = scene.trace(state.trace);
  const site = sceneTrace.site(state.site);
  if (site.long) throw new CannotDraw("refuse.long");
  const shown = mapAtDepth(scene, state, site);
  const [weights, tokenSentence] = rowOrColumn(shown, site, state);
  const axis = state.axis === "row" ? site.columns : site.rows;
  const labels = state.axis === "row" ? shown.columns : shown.rows;
  const shadeOf = shadeWeights({ rows: 1, columns: weights.length, data: weights }, state.scale);
  const stream = sceneTrace.stream(axis);
  const words = labels.map(({ start, stop }, index): ShadedUnit => {
    const first = axis.places[start]!;
    return {
      text: stream.text(first, axis.places[stop - 1]! + 1),
      spaced: stream.spaced(first),
      weight: weights[index]!,
      shade: shadeOf[index]!,
      start,
      stop,
      marked: stream.hasMark(first, axis.places[stop - 1]! + 1),
    };
  });
  const order = [...weights.keys()].sort((one, two) => weights[two]! - weights[one]! || one - two);
  const top = order.slice(0, LISTED).filter((index) => weights[index]! !== 0);
  const sentences = [depthSentence(scene, state, site), tokenSentence, ...processingSentences(site, state)];
  sentences.push(scaleSentence(state, largest(weights)));
  return {
    stream: axis.stream,
    words,
    top: top.map((index) => [labels[index]!.text, weights[index]!]),
    caption: joinSentences(state.language, sentences),
  };
}

/** The map of the head, of the layer, or of all layers that have the same rows and columns. */
function mapAtDepth(scene: Scene, state: ViewState, site: SceneSite): LabelledMap {
  if (state.depth === "head") return labelledMap(scene, state);
  if (state.depth === "layer") return labelledMap(scene, { ...state, head: null });
  const alike = scene.trace(state.trace).alike(site);
  const maps = alike.map(({ name }) => labelledMap(scene, { ...state, site: name, head: null }));
  return { ...maps[0]!, weights: mean(maps.map(({ weights }) => weights)) };
}

/** The weights of the pinned row or column, or the mean of all, and the sentence that names the pinned token. */
function rowOrColumn(shown: LabelledMap, site: SceneSite, state: ViewState): [Float32Array, Sentence] {
  const { rows, columns, data } = shown.weights;
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
  const across = byRow ? shown.rows : shown.columns;
  const place = labelAt(across, state.place);
  for (let index = 0; index < length; index++) weights[index] = cell(place, index);
  // an aggregate, such as a rollout or an occlusion, is no attention of a token
  const what = site.kind === "aggregate" && byRow ? "share" : state.axis;
  return [weights, [`caption.highlight.${what}`, { token: across[place]!.text }]];
}

/** The sentence that names the head, layer or layers that the weights are from. */
function depthSentence(scene: Scene, state: ViewState, site: SceneSite): Sentence {
  if (state.depth === "all") {
    return ["caption.all", { sites: scene.trace(state.trace).alike(site).length }];
  }
  return siteSentence(site, state.depth === "head" ? state.head : null);
}
