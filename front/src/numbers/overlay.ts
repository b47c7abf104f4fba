/**
 * The numbers of the overlay: a weight for each patch of an image.
 * The same arithmetic as `regard.views.kinds.overlay` in Python.
 */
import { CannotDraw } from "../cannot-draw";
import { joinSentences, percent, siteSentence, scaleSentence, type Sentence } from "../captions";
import { largest, zeros, type Matrix } from "../matrix";
import type { Scene, SceneSite, SceneTrace } from "../scene";
import type { ViewState } from "../state";
import { shadeWeights } from "./heatmap";
import { labelAt, rowLabels, type Label } from "./labelled-map";

export interface OverlayNumbers {
  weights: Matrix;
  shades: Float32Array;
  steps: Label[];
  elsewhere: number;
  caption: string;
}

/** The weights of the pinned row over the image, or the mean of all rows; `elsewhere` is the weight outside the image. */
export function overlayNumbers(scene: Scene, state: ViewState): OverlayNumbers {
  const sceneTrace = scene.trace(state.trace);
  const site = sceneTrace.site(state.site);
  const [[height, width], columns] = patchColumns(sceneTrace, site);
  const steps = rowLabels(sceneTrace, site, state);
  const index = state.place === null ? null : labelAt(steps, state.place);
  const weights = scene.weights(site, state.head);
  const [start, stop] = index === null ? [0, weights.rows] : [steps[index]!.start, steps[index]!.stop];
  const line = meanOfRows(weights, start, stop);
  const onImage = zeros(height, width);
  columns.forEach((column, cell) => (onImage.data[cell] = line[column]!));
  const sum = (data: Iterable<number>): number => [...data].reduce((total, weight) => total + weight, 0);
  const elsewhere = Math.max(0, sum(line) - sum(onImage.data));
  const values = { token: index === null ? "" : steps[index]!.text, elsewhere: percent(elsewhere) };
  const sentences: Sentence[] = [
    siteSentence(site, state.head),
    [index === null ? "caption.overlay.all" : "caption.overlay.row", values],
    scaleSentence(state, largest(onImage.data)),
  ];
  const shadeOf = shadeWeights(onImage, state.scale === "row" ? "linear" : state.scale);
  return { weights: onImage, shades: shadeOf, steps, elsewhere, caption: joinSentences(state.language, sentences) };
}

function meanOfRows({ data, columns }: Matrix, start: number, stop: number): Float64Array {
  const line = new Float64Array(columns);
  for (let row = start; row < stop; row++) {
    for (let column = 0; column < columns; column++) line[column]! += data[row * columns + column]!;
  }
  return line.map((total) => total / (stop - start));
}

/** The rows and columns of the grid of patches, and the column of the map that each patch has. */
export function patchColumns(sceneTrace: SceneTrace, site: SceneSite): [[number, number], number[]] {
  const stream = sceneTrace.stream(site.columns);
  if (stream.grid === null || site.long) throw new CannotDraw("refuse.image");
  const count = stream.grid[0] * stream.grid[1];
  const places = new Map<number, number>();
  site.columns.places.forEach((place, index) => places.set(place, index));
  // other tokens, such as a class token, come before the patches
  const columns = Array.from({ length: count }, (_, cell) => places.get(stream.length - count + cell));
  if (columns.some((column) => column === undefined)) throw new CannotDraw("refuse.image");
  return [stream.grid, columns as number[]];
}
