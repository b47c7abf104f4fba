/**
 * The numbers of the overview: a small map for every head of every site.
 * The same arithmetic as `regard.views.kinds.heads` in Python.
 */
import { LEVELS } from "../decoding/map-blob";
import type { Scene, SceneSite } from "../scene";
import type { ViewState } from "../state";
import { say } from "../text";
import { shadeWeights } from "./heatmap";

export interface Thumbnail {
  site: SceneSite;
  head: number;
  height: number;
  width: number;
  shades: Float32Array;
}

export interface HeadsNumbers {
  rows: Thumbnail[][];
  caption: string;
}

export function headsNumbers(scene: Scene, state: ViewState): HeadsNumbers {
  const rows = scene.trace(state.trace).sites.map((site) => {
    const levels = scene.thumbsLoaded(site);
    const [height, width] = site.header.thumbs.size;
    return Array.from({ length: site.heads }, (_, head): Thumbnail => {
      const part = levels.subarray(head * height * width, (head + 1) * height * width);
      const data = new Float32Array(part.length);
      for (let cell = 0; cell < part.length; cell++) data[cell] = LEVELS[part[cell]!]!;
      const shadeOf = shadeWeights({ rows: height, columns: width, data }, state.scale);
      return { site, head, height, width, shades: shadeOf };
    });
  });
  return { rows, caption: say("caption.heads", state.language) };
}
