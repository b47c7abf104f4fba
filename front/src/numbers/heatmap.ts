/**
 * The numbers of the heatmap: weights, a shade for each, and labels.
 * The same arithmetic as `regard.views.kinds.heatmap` in Python.
 */
import { processingSentences, joinSentences, siteSentence, scaleSentence } from "../captions";
import { largest, type Matrix } from "../matrix";
import type { Scene } from "../scene";
import type { Scale, ViewState } from "../state";
import { labelledMap, type Label } from "./labelled-map";

const FAINTEST = 1e-5; // the weight at which the logarithmic scale begins

export interface HeatmapNumbers {
  weights: Matrix;
  shades: Float32Array;
  rows: Label[];
  columns: Label[];
  cells: [number, number];
  caption: string;
}

export function heatmapNumbers(scene: Scene, state: ViewState): HeatmapNumbers {
  const site = scene.trace(state.trace).site(state.site);
  const shown = labelledMap(scene, state);
  const sentences = [
    siteSentence(site, state.head),
    ...processingSentences(site, state),
    scaleSentence(state, largest(shown.weights.data)),
  ];
  return {
    ...shown,
    shades: shadeWeights(shown.weights, state.scale),
    cells: site.header.cells,
    caption: joinSentences(state.language, sentences),
  };
}

/** A shade from 0 to 1 for each weight: its share of the largest weight of the map or row, or its place on a log scale. */
export function shadeWeights({ data, columns }: Matrix, scale: Scale): Float32Array {
  const result = new Float32Array(data.length);
  if (scale === "log") {
    for (let cell = 0; cell < data.length; cell++) result[cell] = logShade(data[cell]!);
    return result;
  }
  const width = scale === "row" ? columns : data.length;
  for (let start = 0; start < data.length; start += width) {
    const most = largest(data, start, start + width);
    if (most <= 0) continue;
    for (let cell = start; cell < start + width; cell++) {
      const share = data[cell]! / most;
      result[cell] = share > 1 ? 1 : share > 0 ? share : 0;
    }
  }
  return result;
}

function logShade(weight: number): number {
  const shade = 1 - Math.log10(Math.max(weight, FAINTEST)) / Math.log10(FAINTEST);
  return Math.min(1, Math.max(0, shade));
}

/** Every how many-th of `count` labels is written if `most` fit: the smallest of 1, 2, 5, 10, 20, 50 … that is enough. */
export function tickStep(count: number, most: number): number {
  const factors = [2, 2.5, 2];
  let step = 1;
  for (let turn = 0; Math.ceil(count / step) > Math.max(1, most); turn++) {
    step = Math.floor(step * factors[turn % 3]!);
  }
  return step;
}

/** The indices of the labels that are written. */
export function ticks(count: number, most: number): number[] {
  const step = tickStep(count, most);
  return Array.from({ length: Math.ceil(count / step) }, (_, index) => index * step);
}
