/** Exact parts of long maps that were asked for as one zooms. */
import { decode } from "../decoding/map-blob";
import { inflate } from "../decoding/inflate";
import type { RequestWindow } from "../view";
import type { Matrix } from "../matrix";
import type { Viewport } from "./layout";

const MOST = 1 << 19; // weights of one part
const REST = 160; // milliseconds that the reader keeps still before a part is asked for
const KEPT = 8;

export interface Exact {
  rows: [number, number];
  columns: [number, number];
  weights: Matrix;
}

export class ExactWindows {
  private readonly kept = new Map<string, Exact[]>();
  private timer = 0;

  of(trace: number, site: string, head: number | null): Exact[] {
    return this.kept.get(`${trace} ${head} ${site}`) ?? [];
  }

  /** RequestWindow for what is seen, once the reader keeps still, if it is little enough and not there yet. */
  want(requestWindow: RequestWindow, place: { trace: number; site: string; head: number }, part: Viewport, drawn: () => void): void {
    clearTimeout(this.timer);
    const [rows, columns] = [part.seenRows, part.seenColumns];
    const size = (rows[1] - rows[0]) * (columns[1] - columns[0]);
    const covers = (each: Exact): boolean => within(rows, each.rows) && within(columns, each.columns);
    if (size > MOST || this.of(place.trace, place.site, place.head).some(covers)) return;
    this.timer = window.setTimeout(() => {
      const keep = (bytes: Uint8Array): void => {
        const key = `${place.trace} ${place.head} ${place.site}`;
        const found = { rows, columns, weights: decode(inflate(bytes)) };
        this.kept.set(key, [...(this.kept.get(key) ?? []), found].slice(-KEPT));
        drawn();
      };
      // what cannot be had leaves the cells as they are
      requestWindow({ ...place, rows, columns }).then(keep, () => undefined);
    }, REST);
  }
}

function within(run: [number, number], other: [number, number]): boolean {
  return other[0] <= run[0] && run[1] <= other[1];
}
