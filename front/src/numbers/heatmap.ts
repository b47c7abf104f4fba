/** The numbers of a heatmap: weights, how strongly each is coloured, labels that do not overlap. */
import { processingSentences, joinSentences, siteSentence, scaleSentence } from "../captions";
import { largest, type Matrix } from "../matrix";
import type { Scene } from "../scene";
import type { Scale, State } from "../state";
import { labelledMap, type Label } from "./labelled-map";

const FAINTEST = 1e-5; // the weight at which logarithmic colours begin

export interface HeatmapNumbers {
  weights: Matrix;
  shades: Float32Array;
  rows: Label[];
  columns: Label[];
  cells: [number, number];
  caption: string;
}

export function heatmapNumbers(scene: Scene, state: State): HeatmapNumbers {
  const site = scene.trace(state.trace).site(state.site);
  const found = labelledMap(scene, state);
  const said = [
    siteSentence(site, state.head),
    ...processingSentences(site, state),
    scaleSentence(state, largest(found.weights.data)),
  ];
  return {
    ...found,
    shades: shades(found.weights, state.scale),
    cells: site.header.cells,
    caption: joinSentences(state.language, said),
  };
}

/** How strongly each weight is coloured, from 0 to 1. */
export function shades({ data, columns }: Matrix, scale: Scale): Float32Array {
  const found = new Float32Array(data.length);
  if (scale === "log") {
    for (let cell = 0; cell < data.length; cell++) found[cell] = logShade(data[cell]!);
    return found;
  }
  const width = scale === "row" ? columns : data.length;
  for (let start = 0; start < data.length; start += width) {
    const most = largest(data, start, start + width);
    if (most <= 0) continue;
    for (let cell = start; cell < start + width; cell++) {
      const share = data[cell]! / most;
      found[cell] = share > 1 ? 1 : share > 0 ? share : 0;
    }
  }
  return found;
}

function logShade(weight: number): number {
  const shade = 1 - Math.log10(Math.max(weight, FAINTEST)) / Math.log10(FAINTEST);
  return Math.min(1, Math.max(0, shade));
}

/** Of how many labels one is written, if there is room for `most`: every 1st, 2nd, 5th, 10th …. */
export function tickStep(count: number, most: number): number {
  const factors = [2, 2.5, 2];
  let step = 1;
  for (let turn = 0; Math.ceil(count / step) > Math.max(1, most); turn++) {
    step = Math.floor(step * factors[turn % 3]!);
  }
  return step;
}

export function ticks(count: number, most: number): number[] {
  const step = tickStep(count, most);
  return Array.from({ length: Math.ceil(count / step) }, (_, index) => index * step);
}
