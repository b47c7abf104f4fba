/**
 * A map on a canvas: cells, labels, the row and column under the pointer, zooming and moving.
 *
 * The cells are painted once, one pixel each, on a canvas of their own; each drawing scales that image, so that moving
 * and zooming stay fast. What follows the pointer is drawn on a second canvas above.
 */
import { colourAt, isBright, paint } from "../colours";
import { h, resizeCanvas } from "../dom";
import type { Matrix } from "../matrix";
import { visible, width } from "../token-text";
import { drawColumnLabel, drawColumnLabels, drawRowLabels, labelText, type TextColours } from "./axis-labels";
import { layoutMap, Viewport, type AxisLabels } from "./layout";

/** A window of exact weights within a long map. */
export interface Patch {
  rows: [number, number];
  columns: [number, number];
  weights: Matrix;
  shades: Float32Array;
  /** Whether its edge is drawn: windows of the page are framed, those fetched while zooming are not. */
  framed: boolean;
}

/** What the panel draws. */
export interface Plot {
  weights: Matrix;
  shades: Float32Array;
  rows: AxisLabels;
  columns: AxisLabels;
  /** Rows and columns of tokens in each cell of the weights; [1, 1] unless the map is long. */
  cells: [number, number];
  colours: Uint32Array;
  patches: Patch[];
  pinned: { axis: "row" | "column"; start: number; stop: number } | null;
  /** Rows and columns that the open finding is about. */
  marked?: { rows: number[]; columns: number[] };
}

/** The cell under the pointer. */
export interface HoveredCell {
  row: number;
  column: number;
  weight: number;
  patch: Patch | null;
}

export interface MapListener {
  hover(hovered: HoveredCell | null, event: PointerEvent): void;
  pin(axis: "row" | "column", index: number): void;
  /** Another part of the map is visible. */
  moved?(viewport: Viewport): void;
}

const GRID_LINES = 11; // pixels of a cell from which lines are drawn between cells
const WITH_NUMBERS = 40; // pixels of a cell from which its weight is written into it
const THIN = 5; // pixels of a row below which its frame is drawn around it, not over it

export class MapPanel {
  readonly element: HTMLElement;
  viewport!: Viewport;
  private readonly canvas = h("canvas", { role: "img", tabindex: 0 });
  private readonly above = h("canvas", { class: "above", "aria-hidden": "true" });
  private readonly picture = document.createElement("canvas");
  private patches: HTMLCanvasElement[] = [];
  private plot: Plot | null = null;
  private textColours: TextColours = { text: "", faint: "", accent: "" };
  private pressed: { x: number; y: number; moved: boolean } | null = null;
  private shape = "";

  constructor(
    private readonly listener: MapListener,
    private readonly room: () => number,
  ) {
    this.element = h("div", { class: "map" }, [this.canvas, this.above]);
    const on = <Name extends keyof HTMLElementEventMap>(
      type: Name,
      handler: (event: HTMLElementEventMap[Name]) => void,
    ): void => this.element.addEventListener(type, handler, { passive: false });
    on("pointermove", (event) => this.pointerMoved(event));
    on("pointerleave", (event) => this.pointerLeft(event));
    on("pointerdown", (event) => this.press(event));
    on("pointerup", (event) => this.release(event));
    on("pointercancel", () => (this.pressed = null));
    on("wheel", (event) => this.wheel(event));
    on("dblclick", () => this.showWhole());
  }

  /** Draw another map. */
  show(plot: Plot, caption: string): void {
    this.plot = plot;
    this.canvas.setAttribute("aria-label", caption);
    paint(this.picture, plot.shades, plot.weights.columns, plot.colours);
    this.patches = plot.patches.map((patch) => {
      const canvas = document.createElement("canvas");
      paint(canvas, patch.shades, patch.weights.columns, plot.colours);
      return canvas;
    });
    this.layout();
  }

  /** Lay the map out again, and keep the visible part if the map has the same shape. */
  layout(): void {
    const { plot } = this;
    if (!plot) return;
    const room = { wide: Math.max(180, Math.floor(this.room())), high: Math.max(320, window.innerHeight * 0.82) };
    const frame = layoutMap(plot.rows, plot.columns, room);
    const shape = `${plot.rows.count} ${plot.columns.count}`;
    if (shape === this.shape) this.viewport.frame = frame;
    else this.viewport = new Viewport(frame, plot.rows.count, plot.columns.count);
    this.shape = shape;
    this.draw();
  }

  /** Show the whole map again. */
  showWhole(): void {
    if (!this.plot) return;
    this.viewport = new Viewport(this.viewport.frame, this.plot.rows.count, this.plot.columns.count);
    this.draw();
  }

  /** Draw the visible part of the map and its labels. */
  draw(): void {
    const { plot, viewport } = this;
    if (!plot) return;
    this.readColours();
    const { frame } = viewport;
    const context = resizeCanvas(this.canvas, frame.width, frame.height);
    context.save();
    context.beginPath();
    context.rect(frame.left, frame.top, frame.wide, frame.high);
    context.clip();
    this.drawCells(context, plot);
    plot.patches.forEach((patch, index) => this.drawPatch(context, patch, this.patches[index]!));
    context.restore();
    drawRowLabels(context, viewport, plot.rows, this.textColours);
    drawColumnLabels(context, viewport, plot.columns, this.textColours);
    this.element.classList.toggle("zoomed", viewport.zoom > 1);
    // tells tests in a browser where the cells are
    this.element.dataset["frame"] = [frame.left, frame.top, frame.wide, frame.high].join(" ");
    this.drawOverlay(null);
    this.listener.moved?.(viewport);
  }

  private readColours(): void {
    const style = getComputedStyle(this.element);
    const ink = (key: string): string => style.getPropertyValue(key).trim();
    this.textColours = { text: ink("--ink"), faint: ink("--faint"), accent: ink("--accent") };
  }

  /** Draw the visible cells: the painted image, scaled. */
  private drawCells(context: CanvasRenderingContext2D, plot: Plot): void {
    const { viewport, picture } = this;
    const [high, wide] = plot.cells;
    const [x, y] = viewport.point(0, 0);
    const [across, down] = [viewport.size[0] * wide, viewport.size[1] * high];
    context.imageSmoothingEnabled = across < 1 || down < 1;
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, x, y, across * plot.weights.columns, down * plot.weights.rows);
    if (Math.min(across, down) >= GRID_LINES) this.drawGridLines(context, across, down, [x, y], plot.weights);
    if (across >= WITH_NUMBERS && down >= 18 && plot.patches.length === 0) this.drawNumbers(context, plot);
  }

  private drawGridLines(
    context: CanvasRenderingContext2D, across: number, down: number, [x, y]: [number, number], map: Matrix,
  ): void {
    context.fillStyle = getComputedStyle(this.element).getPropertyValue("--paper");
    const { frame } = this.viewport;
    for (let column = 1; column < map.columns; column++) {
      context.fillRect(Math.round(x + column * across) - 0.5, frame.top, 1, frame.high);
    }
    for (let row = 1; row < map.rows; row++) {
      context.fillRect(frame.left, Math.round(y + row * down) - 0.5, frame.wide, 1);
    }
  }

  /** Write weights as percentages into the cells; weights below 0.5% would only be noise. */
  private drawNumbers(context: CanvasRenderingContext2D, plot: Plot): void {
    const [rows, columns] = [this.viewport.visibleRows, this.viewport.visibleColumns];
    const [high, wide] = plot.cells;
    context.font = this.viewport.frame.font.replace(/^\d+/, "11");
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let row = Math.floor(rows[0] / high); row < rows[1] / high; row++) {
      for (let column = Math.floor(columns[0] / wide); column < columns[1] / wide; column++) {
        const cell = row * plot.weights.columns + column;
        const weight = plot.weights.data[cell]!;
        if (Math.abs(weight) < 0.005) continue;
        const bright = isBright(colourAt(plot.colours, plot.shades[cell]!));
        context.fillStyle = bright ? "rgb(0 0 0 / 62%)" : "rgb(255 255 255 / 88%)";
        const [x, y] = this.viewport.point((column + 0.5) * wide, (row + 0.5) * high);
        const sign = weight < 0 ? "\u2212" : "";
        context.fillText(`${sign}${Math.round(Math.abs(100 * weight))}`, x, y + 0.5);
      }
    }
  }

  private drawPatch(context: CanvasRenderingContext2D, patch: Patch, canvas: HTMLCanvasElement): void {
    const [x, y] = this.viewport.point(patch.columns[0], patch.rows[0]);
    const [right, bottom] = this.viewport.point(patch.columns[1], patch.rows[1]);
    const [across, down] = this.viewport.size;
    context.imageSmoothingEnabled = across < 1 || down < 1;
    context.drawImage(canvas, x, y, right - x, bottom - y);
    if (!patch.framed) return;
    context.strokeStyle = this.textColours.accent;
    context.lineWidth = 1.5;
    context.strokeRect(x, y, Math.max(3, right - x), Math.max(3, bottom - y));
  }

  /** Draw what is marked, pinned and under the pointer, on the canvas above the map. */
  private drawOverlay(hovered: HoveredCell | null): void {
    const { plot, viewport } = this;
    if (!plot) return;
    const { frame } = viewport;
    const context = resizeCanvas(this.above, frame.width, frame.height);
    context.save();
    context.beginPath();
    context.rect(frame.left - 1, frame.top - 1, frame.wide + 2, frame.high + 2);
    context.clip();
    context.strokeStyle = this.textColours.accent;
    if (plot.marked) this.drawMarked(context, plot.marked);
    if (plot.pinned) this.drawPinned(context, plot.pinned);
    if (hovered) this.drawHovered(context, hovered, plot);
    context.restore();
    if (hovered) this.drawHoveredLabels(context, plot, hovered);
  }

  private drawPinned(context: CanvasRenderingContext2D, pinned: NonNullable<Plot["pinned"]>): void {
    const { viewport } = this;
    const { frame } = viewport;
    const byRow = pinned.axis === "row";
    const [x, y] = viewport.point(pinned.start, pinned.start);
    const [right, bottom] = viewport.point(pinned.stop, pinned.stop);
    const size = byRow ? bottom - y : right - x;
    const away = size < THIN ? 2 : 0; // so that the frame does not hide a thin row
    context.lineWidth = size < THIN ? 1 : 2;
    if (byRow) context.strokeRect(frame.left, y - away, frame.wide, bottom - y + 2 * away);
    else context.strokeRect(x - away, frame.top, right - x + 2 * away, frame.high);
  }

  private drawMarked(context: CanvasRenderingContext2D, marked: NonNullable<Plot["marked"]>): void {
    for (const row of marked.rows) this.drawPinned(context, { axis: "row", start: row, stop: row + 1 });
    for (const column of marked.columns) this.drawPinned(context, { axis: "column", start: column, stop: column + 1 });
  }

  private drawHovered(context: CanvasRenderingContext2D, hovered: HoveredCell, plot: Plot): void {
    const { viewport } = this;
    const { frame } = viewport;
    const [rows, columns] = this.cellRange(hovered, plot);
    const [x, y] = viewport.point(columns[0], rows[0]);
    const [right, bottom] = viewport.point(columns[1], rows[1]);
    context.globalAlpha = 0.55;
    context.lineWidth = 1;
    context.strokeRect(frame.left, y, frame.wide, Math.max(1, bottom - y));
    context.strokeRect(x, frame.top, Math.max(1, right - x), frame.high);
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeRect(x, y, Math.max(2, right - x), Math.max(2, bottom - y));
  }

  /** The rows and columns of tokens that the hovered cell covers. */
  private cellRange(hovered: HoveredCell, plot: Plot): [[number, number], [number, number]] {
    const [high, wide] = hovered.patch ? [1, 1] : plot.cells;
    const [row, column] = [hovered.row - (hovered.row % high), hovered.column - (hovered.column % wide)];
    return [
      [row, Math.min(row + high, plot.rows.count)],
      [column, Math.min(column + wide, plot.columns.count)],
    ];
  }

  /** Write the labels of the hovered row and column in bold over the others. */
  private drawHoveredLabels(context: CanvasRenderingContext2D, plot: Plot, hovered: HoveredCell): void {
    const { frame } = this.viewport;
    const [rows, columns] = this.cellRange(hovered, plot);
    const font = `600 ${frame.font}`;
    context.font = font;
    const paper = getComputedStyle(this.element).getPropertyValue("--paper");
    const [x, y] = this.viewport.point((columns[0] + columns[1]) / 2, (rows[0] + rows[1]) / 2);
    const text = labelText(plot.rows, rows[0], font, frame.left - 12);
    const wide = width(text, font);
    context.fillStyle = paper;
    context.fillRect(frame.left - 12 - wide, y - 8, wide + 8, 16);
    context.fillStyle = this.textColours.accent;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(text, frame.left - 8, y);
    context.save();
    this.clearColumnName(context, x, width(visible(plot.columns.text(columns[0])), font), paper);
    context.font = font;
    context.fillStyle = this.textColours.accent;
    drawColumnLabel(context, this.viewport, plot.columns, columns[0], x);
    context.restore();
  }

  private clearColumnName(context: CanvasRenderingContext2D, x: number, wide: number, paper: string): void {
    const { frame } = this.viewport;
    context.save();
    context.translate(x, frame.top - (frame.turn === 0 ? 10 : 6));
    context.rotate(frame.turn);
    context.fillStyle = paper;
    const start = frame.turn === 0 ? -wide / 2 - 3 : -4;
    context.fillRect(start, -8, Math.min(wide + 8, frame.top * 1.4), 16);
    context.restore();
  }

  /** The cell, row and column under the pointer; a label counts as its row or column. */
  private under(event: MouseEvent): { hovered: HoveredCell | null; row: number | null; column: number | null } {
    const { plot, viewport } = this;
    if (!plot) return { hovered: null, row: null, column: null };
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const [atColumn, atRow] = viewport.at(x, y);
    const [column, row] = [Math.floor(atColumn), Math.floor(atRow)];
    const { left, top, wide, high } = viewport.frame;
    const inRows = y >= top && y < top + high && row >= 0 && row < plot.rows.count;
    const inColumns = x >= left && x < left + wide && column >= 0 && column < plot.columns.count;
    const hovered = inRows && inColumns ? this.weightAt(plot, row, column) : null;
    return { hovered, row: inRows ? row : null, column: inColumns && y < top + high ? column : null };
  }

  /** The cell of a row and column of tokens: of an exact window if one covers it, else of the map. */
  private weightAt(plot: Plot, row: number, column: number): HoveredCell {
    const patch = plot.patches.find(
      ({ rows, columns }) =>
        row >= rows[0] && row < rows[1] && column >= columns[0] && column < columns[1],
    );
    if (patch) {
      const cell = (row - patch.rows[0]) * patch.weights.columns + column - patch.columns[0];
      return { row, column, weight: patch.weights.data[cell]!, patch };
    }
    const cell = Math.floor(row / plot.cells[0]) * plot.weights.columns + Math.floor(column / plot.cells[1]);
    return { row, column, weight: plot.weights.data[cell]!, patch: null };
  }

  /** Mark the cell that the pointer is on in another panel. */
  markCell(hovered: { row: number; column: number } | null): void {
    this.drawOverlay(hovered && this.plot ? this.weightAt(this.plot, hovered.row, hovered.column) : null);
  }

  private pointerMoved(event: PointerEvent): void {
    if (this.pressed && this.drag(event)) return;
    const { hovered } = this.under(event);
    this.drawOverlay(hovered);
    this.listener.hover(hovered, event);
  }

  /** Move the map with the pointer; whether it was moved. */
  private drag(event: PointerEvent): boolean {
    const pressed = this.pressed!;
    const [x, y] = [event.clientX - pressed.x, event.clientY - pressed.y];
    if (this.viewport.zoom === 1 || (!pressed.moved && Math.hypot(x, y) < 5)) return false;
    this.pressed = { x: event.clientX, y: event.clientY, moved: true };
    this.viewport.move(x, y);
    this.draw();
    return true;
  }

  private pointerLeft(event: PointerEvent): void {
    this.drawOverlay(null);
    this.listener.hover(null, event);
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.pressed = { x: event.clientX, y: event.clientY, moved: false };
    if (this.viewport.zoom > 1) this.element.setPointerCapture(event.pointerId);
  }

  /** A click, unless the pointer was moved, pins the row, or with Shift the column. */
  private release(event: PointerEvent): void {
    const { pressed } = this;
    this.pressed = null;
    if (!pressed || pressed.moved || Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) > 5) return;
    const { row, column } = this.under(event);
    if (row !== null && !(event.shiftKey && column !== null)) this.listener.pin("row", row);
    else if (column !== null) this.listener.pin("column", column);
  }

  /** Zoom with the wheel; at the ends of the zoom the page scrolls instead. */
  private wheel(event: WheelEvent): void {
    const { viewport } = this;
    const box = this.canvas.getBoundingClientRect();
    const before = viewport.zoom;
    if ((event.deltaY > 0 && before <= 1) || (event.deltaY < 0 && before >= viewport.largestZoom)) return;
    event.preventDefault();
    viewport.zoomAt(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    this.draw();
  }

  /** Move the map so that a row or column is visible. */
  reveal(axis: "row" | "column", index: number): void {
    const { viewport, plot } = this;
    if (!plot) return;
    const [first, last] = axis === "row" ? viewport.visibleRows : viewport.visibleColumns;
    if (index >= first && index < last) return;
    const [across, down] = viewport.size;
    const middle = (first + last) / 2;
    viewport.move(axis === "column" ? (middle - index) * across : 0, axis === "row" ? (middle - index) * down : 0);
    this.draw();
  }
}

/** The positions of the row and column of a cell, counted from 1. */
export function positions(hovered: HoveredCell): string {
  return `${hovered.row + 1} → ${hovered.column + 1}`;
}

