/** The numbers of attention over a picture: a weight for each patch, row by row. */
import { joinSentences, percent, siteSentence, scaleSentence, type Sentence } from "../captions";
import { largest, zeros, type Matrix } from "../matrix";
import { CannotDraw } from "../cannot-draw";
import type { Scene, Site, SceneTrace } from "../scene";
import type { State } from "../state";
import { shades } from "./heatmap";
import { labelAt, rowLabels, type Label } from "./labelled-map";

export interface OverlayNumbers {
  weights: Matrix;
  shades: Float32Array;
  steps: Label[];
  elsewhere: number;
  caption: string;
}

/** Where the pinned row looked in the picture, or all rows on average. */
export function overlayNumbers(scene: Scene, state: State): OverlayNumbers {
  const sceneTrace = scene.trace(state.trace);
  const site = sceneTrace.site(state.site);
  const [[height, width], columns] = patches(sceneTrace, site);
  const steps = rowLabels(sceneTrace, site, state);
  const index = state.place === null ? null : labelAt(steps, state.place);
  const weights = scene.weights(site, state.head);
  const [start, stop] = index === null ? [0, weights.rows] : [steps[index]!.start, steps[index]!.stop];
  const line = meanOfRows(weights, start, stop);
  const laid = zeros(height, width);
  columns.forEach((column, cell) => (laid.data[cell] = line[column]!));
  const sum = (data: Iterable<number>): number => [...data].reduce((all, each) => all + each, 0);
  const elsewhere = Math.max(0, sum(line) - sum(laid.data));
  const values = { token: index === null ? "" : steps[index]!.text, elsewhere: percent(elsewhere) };
  const said: Sentence[] = [
    siteSentence(site, state.head),
    [index === null ? "caption.overlay.all" : "caption.overlay.row", values],
    scaleSentence(state, largest(laid.data)),
  ];
  const strong = shades(laid, state.scale === "row" ? "linear" : state.scale);
  return { weights: laid, shades: strong, steps, elsewhere, caption: joinSentences(state.language, said) };
}

function meanOfRows({ data, columns }: Matrix, start: number, stop: number): Float64Array {
  const line = new Float64Array(columns);
  for (let row = start; row < stop; row++) {
    for (let column = 0; column < columns; column++) line[column]! += data[row * columns + column]!;
  }
  return line.map((each) => each / (stop - start));
}

/** The grid that a site looks at, and the column of each of its patches. */
export function patches(sceneTrace: SceneTrace, site: Site): [[number, number], number[]] {
  const stream = sceneTrace.stream(site.columns);
  if (stream.grid === null || site.long) throw new CannotDraw("refuse.image");
  const count = stream.grid[0] * stream.grid[1];
  const places = new Map<number, number>();
  site.columns.places.forEach((place, index) => places.set(place, index));
  const wanted = Array.from({ length: count }, (_, cell) => places.get(stream.length - count + cell));
  if (wanted.some((column) => column === undefined)) throw new CannotDraw("refuse.image");
  return [stream.grid, wanted as number[]];
}
