/** The layout of a map on its canvas (Frame), and the part of it that is visible after zooming and moving (Viewport). */
import { FONT, visible, width } from "../token-text";

/** The labels of the rows or of the columns of a map. */
export interface AxisLabels {
  count: number;
  text(index: number): string;
  special(index: number): boolean;
}

/** The pixels that a map may take. */
export interface Room {
  wide: number;
  high: number;
}

/** Where the cells lie on the canvas, and the size of the canvas with its labels, in CSS pixels. */
export interface Frame {
  left: number;
  top: number;
  wide: number;
  high: number;
  /** The canvas. */
  width: number;
  height: number;
  /** The angle of column labels: horizontal, slanted or vertical. */
  turn: number;
  font: string;
}

export const FONT_SIZE = 12;
export const LINE = 15;
const LARGEST_CELL = 44; // pixels; maps with few cells get larger ones
const ALL_LABELLED = 64; // all rows of a map with at most this many get their label, however tall the map becomes
export const SLANTED = 19; // pixels that a slanted label needs beside the next
const MEASURED = 400; // labels that are measured to find the width of all
export const SLANT = -Math.PI / 4;
export const UPRIGHT = -Math.PI / 2;

/** Lay out a map in the room that there is. Cells are squares unless the map is far wider than tall, or the reverse. */
export function layoutMap(rows: AxisLabels, columns: AxisLabels, room: Room): Frame {
  const font = `${FONT_SIZE}px ${FONT}`;
  const left = Math.min(longestLabel(rows, font), Math.max(64, 0.26 * room.wide)) + 12;
  const names = longestLabel(columns, font);
  const most = Math.min(names, 132);
  const high = Math.max(room.high - most, LINE * Math.min(rows.count, ALL_LABELLED), 120);
  const size = (over: number): [number, number] =>
    cellSize(rows.count, columns.count, room.wide - left - 2 - over, high);
  const over = Math.max(0, most * 0.72 - 6); // how far the last slanted label extends to the right
  let [cell, turn] = [size(0), 0];
  if (names + 8 > cell[0]) [cell, turn] = [size(over), SLANT];
  if (turn === SLANT && cell[0] < SLANTED) [cell, turn] = [size(0), UPRIGHT];
  const plot = { wide: cell[0] * columns.count, high: cell[1] * rows.count };
  const top = turn === 0 ? LINE + 8 : turn === SLANT ? most * 0.72 + 12 : most + 12;
  const width = left + plot.wide + (turn === SLANT ? over : 2);
  return { left, top, ...plot, turn, font, width, height: top + plot.high + 2 };
}

/** The width and height of a cell in pixels, whole numbers if they are large enough. */
function cellSize(rows: number, columns: number, wide: number, high: number): [number, number] {
  const most = Math.min(76, Math.max(LARGEST_CELL, 480 / Math.max(rows, columns)));
  const across = Math.min(most, wide / columns);
  const down = Math.min(most, high / rows);
  const square = Math.min(across, down);
  const wholePixels = (size: number): number => (size >= 4 ? Math.floor(size) : size);
  if (square * 2.5 >= Math.max(across, down)) return [wholePixels(square), wholePixels(square)];
  return [wholePixels(across), wholePixels(down)];
}

/** The width of the longest label. */
function longestLabel(side: AxisLabels, font: string): number {
  const step = Math.max(1, Math.floor(side.count / MEASURED));
  let longest = 0;
  for (let index = 0; index < side.count; index += step) {
    longest = Math.max(longest, width(visible(side.text(index)), font));
  }
  return Math.ceil(longest);
}

/** The visible part of a map: its first column (x) and row (y), which may be fractions, and the zoom factor. */
export class Viewport {
  x = 0;
  y = 0;
  zoom = 1;

  constructor(public frame: Frame, private rows: number, private columns: number) {}

  /** Pixels of one column and of one row. */
  get size(): [number, number] {
    return [
      (this.frame.wide / this.columns) * this.zoom,
      (this.frame.high / this.rows) * this.zoom,
    ];
  }

  /** The column and row under a point of the canvas. */
  at(x: number, y: number): [number, number] {
    const [across, down] = this.size;
    return [(x - this.frame.left) / across + this.x, (y - this.frame.top) / down + this.y];
  }

  /** The point of the canvas where a column and row begin. */
  point(column: number, row: number): [number, number] {
    const [across, down] = this.size;
    return [this.frame.left + (column - this.x) * across, this.frame.top + (row - this.y) * down];
  }

  /** The zoom at which a cell has 56 pixels: more would show nothing new. */
  get largestZoom(): number {
    const [across, down] = this.size;
    return Math.max(1, (56 * this.zoom) / Math.max(across, down));
  }

  /** Zoom in or out so that the cell under a point of the canvas stays there. */
  zoomAt(factor: number, x: number, y: number): void {
    const [column, row] = this.at(x, y);
    this.zoom = Math.min(this.largestZoom, Math.max(1, this.zoom * factor));
    const [across, down] = this.size;
    this.x = column - (x - this.frame.left) / across;
    this.y = row - (y - this.frame.top) / down;
    this.clamp();
  }

  /** Move by pixels. */
  move(x: number, y: number): void {
    const [across, down] = this.size;
    this.x -= x / across;
    this.y -= y / down;
    this.clamp();
  }

  /** Show these columns and rows as large as they fit. */
  fit(columns: [number, number], rows: [number, number]): void {
    const share = Math.max((columns[1] - columns[0]) / this.columns, (rows[1] - rows[0]) / this.rows);
    this.zoom = Math.min(this.largestZoom, Math.max(1, 1 / share));
    this.x = (columns[0] + columns[1]) / 2 - this.columns / this.zoom / 2;
    this.y = (rows[0] + rows[1]) / 2 - this.rows / this.zoom / 2;
    this.clamp();
  }

  /** Keep the visible part inside the map. */
  private clamp(): void {
    this.x = Math.min(this.columns - this.columns / this.zoom, Math.max(0, this.x));
    this.y = Math.min(this.rows - this.rows / this.zoom, Math.max(0, this.y));
  }

  /** The columns that are visible: [first, last). */
  get visibleColumns(): [number, number] {
    return [Math.floor(this.x), Math.min(this.columns, Math.ceil(this.x + this.columns / this.zoom))];
  }

  get visibleRows(): [number, number] {
    return [Math.floor(this.y), Math.min(this.rows, Math.ceil(this.y + this.rows / this.zoom))];
  }
}
