/** LoadedWindow weights of long maps, requested from Python while the reader zooms in a notebook. */
import { inflate } from "../decoding/inflate";
import { decode } from "../decoding/map-blob";
import type { Matrix } from "../matrix";
import type { RequestWindow } from "../view";
import type { Viewport } from "./layout";

const MAX_WEIGHTS = 1 << 19; // of one window
const DELAY = 160; // milliseconds without zooming or moving before a window is requested
const MAX_KEPT = 8; // windows of one head

/** A window that has arrived. */
export interface LoadedWindow {
  rows: [number, number];
  columns: [number, number];
  weights: Matrix;
}

export class ExactWindows {
  private readonly kept = new Map<string, LoadedWindow[]>();
  private timer = 0;

  /** The windows of a head that have arrived. */
  of(trace: number, site: string, head: number | null): LoadedWindow[] {
    return this.kept.get(`${trace} ${head} ${site}`) ?? [];
  }

  /** Request the visible part once the reader keeps still, unless it is too large or already there; then call `drawn`. */
  request(requestWindow: RequestWindow, place: { trace: number; site: string; head: number }, viewport: Viewport, drawn: () => void): void {
    clearTimeout(this.timer);
    const [rows, columns] = [viewport.visibleRows, viewport.visibleColumns];
    const size = (rows[1] - rows[0]) * (columns[1] - columns[0]);
    const covers = (loaded: LoadedWindow): boolean => within(rows, loaded.rows) && within(columns, loaded.columns);
    if (size > MAX_WEIGHTS || this.of(place.trace, place.site, place.head).some(covers)) return;
    this.timer = window.setTimeout(() => {
      const keep = (bytes: Uint8Array): void => {
        const key = `${place.trace} ${place.head} ${place.site}`;
        const loaded = { rows, columns, weights: decode(inflate(bytes)) };
        this.kept.set(key, [...(this.kept.get(key) ?? []), loaded].slice(-MAX_KEPT));
        drawn();
      };
      // if the request fails, the cells with their means stay
      requestWindow({ ...place, rows, columns }).then(keep, () => undefined);
    }, DELAY);
  }
}

function within(run: [number, number], other: [number, number]): boolean {
  return other[0] <= run[0] && run[1] <= other[1];
}
