/** A map on a canvas: cells, names, the pointer's row and column, zooming and moving. */
import { colourAt, isBright, paint } from "../colours";
import { h, resizeCanvas } from "../dom";
import { visible, width } from "../token-text";
import type { Matrix } from "../matrix";
import { layoutMap, Viewport, type AxisLabels } from "./layout";
import { drawColumnName, drawColumnNames, drawRowNames, name, type Inks } from "./axis-labels";

/** An exact part of a long map. */
export interface Patch {
  rows: [number, number];
  columns: [number, number];
  weights: Matrix;
  shades: Float32Array;
  /** Whether its edge is drawn: it was chosen, and is not just what is seen. */
  framed: boolean;
}

export interface Plot {
  weights: Matrix;
  shades: Float32Array;
  rows: AxisLabels;
  columns: AxisLabels;
  /** Rows and columns of the sides in each cell of the weights. */
  cells: [number, number];
  colours: Uint32Array;
  patches: Patch[];
  pinned: { axis: "row" | "column"; start: number; stop: number } | null;
  /** Rows and columns that the open finding is about. */
  marked?: { rows: number[]; columns: number[] };
}

export interface HoveredCell {
  row: number;
  column: number;
  weight: number;
  patch: Patch | null;
}

export interface MapListener {
  hover(found: HoveredCell | null, event: PointerEvent): void;
  pin(axis: "row" | "column", index: number): void;
  /** Another part is seen. */
  moved?(part: Viewport): void;
}

const GAPS = 11; // cells of this size are set apart
const NUMBERS = 40; // cells of this size show their weight
const THIN = 5; // rows and columns of this size are framed from outside

export class MapPanel {
  readonly element: HTMLElement;
  part!: Viewport;
  private readonly canvas = h("canvas", { role: "img", tabindex: 0 });
  private readonly above = h("canvas", { class: "above", "aria-hidden": "true" });
  private readonly picture = document.createElement("canvas");
  private patches: HTMLCanvasElement[] = [];
  private plot: Plot | null = null;
  private inks: Inks = { name: "", faint: "", accent: "" };
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
    on("pointermove", (event) => this.pointed(event));
    on("pointerleave", (event) => this.left(event));
    on("pointerdown", (event) => this.press(event));
    on("pointerup", (event) => this.release(event));
    on("pointercancel", () => (this.pressed = null));
    on("wheel", (event) => this.wheel(event));
    on("dblclick", () => this.whole());
  }

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

  /** Find room again, and keep the part that is seen if the map has the same shape. */
  layout(): void {
    const { plot } = this;
    if (!plot) return;
    const room = { wide: Math.max(180, Math.floor(this.room())), high: Math.max(320, window.innerHeight * 0.82) };
    const frame = layoutMap(plot.rows, plot.columns, room);
    const shape = `${plot.rows.count} ${plot.columns.count}`;
    if (shape === this.shape) this.part.frame = frame;
    else this.part = new Viewport(frame, plot.rows.count, plot.columns.count);
    this.shape = shape;
    this.draw();
  }

  whole(): void {
    if (!this.plot) return;
    this.part = new Viewport(this.part.frame, this.plot.rows.count, this.plot.columns.count);
    this.draw();
  }

  draw(): void {
    const { plot, part } = this;
    if (!plot) return;
    this.readInks();
    const { frame } = part;
    const context = resizeCanvas(this.canvas, frame.width, frame.height);
    context.save();
    context.beginPath();
    context.rect(frame.left, frame.top, frame.wide, frame.high);
    context.clip();
    this.drawCells(context, plot);
    plot.patches.forEach((patch, index) => this.drawPatch(context, patch, this.patches[index]!));
    context.restore();
    drawRowNames(context, part, plot.rows, this.inks);
    drawColumnNames(context, part, plot.columns, this.inks);
    this.element.classList.toggle("zoomed", part.zoom > 1);
    // for those that drive the page: where the cells are
    this.element.dataset["frame"] = [frame.left, frame.top, frame.wide, frame.high].join(" ");
    this.drawAbove(null);
    this.listener.moved?.(part);
  }

  private readInks(): void {
    const style = getComputedStyle(this.element);
    const ink = (key: string): string => style.getPropertyValue(key).trim();
    this.inks = { name: ink("--ink"), faint: ink("--faint"), accent: ink("--accent") };
  }

  private drawCells(context: CanvasRenderingContext2D, plot: Plot): void {
    const { part, picture } = this;
    const [high, wide] = plot.cells;
    const [x, y] = part.point(0, 0);
    const [across, down] = [part.size[0] * wide, part.size[1] * high];
    context.imageSmoothingEnabled = across < 1 || down < 1;
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, x, y, across * plot.weights.columns, down * plot.weights.rows);
    if (Math.min(across, down) >= GAPS) this.drawGaps(context, across, down, [x, y], plot.weights);
    if (across >= NUMBERS && down >= 18 && plot.patches.length === 0) this.drawNumbers(context, plot);
  }

  private drawGaps(
    context: CanvasRenderingContext2D, across: number, down: number, [x, y]: [number, number], map: Matrix,
  ): void {
    context.fillStyle = getComputedStyle(this.element).getPropertyValue("--paper");
    const { frame } = this.part;
    for (let column = 1; column < map.columns; column++) {
      context.fillRect(Math.round(x + column * across) - 0.5, frame.top, 1, frame.high);
    }
    for (let row = 1; row < map.rows; row++) {
      context.fillRect(frame.left, Math.round(y + row * down) - 0.5, frame.wide, 1);
    }
  }

  /** Weights in percent, where they are large enough to be read at a glance. */
  private drawNumbers(context: CanvasRenderingContext2D, plot: Plot): void {
    const [rows, columns] = [this.part.seenRows, this.part.seenColumns];
    const [high, wide] = plot.cells;
    context.font = this.part.frame.font.replace(/^\d+/, "11");
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let row = Math.floor(rows[0] / high); row < rows[1] / high; row++) {
      for (let column = Math.floor(columns[0] / wide); column < columns[1] / wide; column++) {
        const cell = row * plot.weights.columns + column;
        const weight = plot.weights.data[cell]!;
        if (Math.abs(weight) < 0.005) continue;
        const bright = isBright(colourAt(plot.colours, plot.shades[cell]!));
        context.fillStyle = bright ? "rgb(0 0 0 / 62%)" : "rgb(255 255 255 / 88%)";
        const [x, y] = this.part.point((column + 0.5) * wide, (row + 0.5) * high);
        const sign = weight < 0 ? "\u2212" : "";
        context.fillText(`${sign}${Math.round(Math.abs(100 * weight))}`, x, y + 0.5);
      }
    }
  }

  private drawPatch(context: CanvasRenderingContext2D, patch: Patch, canvas: HTMLCanvasElement): void {
    const [x, y] = this.part.point(patch.columns[0], patch.rows[0]);
    const [right, bottom] = this.part.point(patch.columns[1], patch.rows[1]);
    const [across, down] = this.part.size;
    context.imageSmoothingEnabled = across < 1 || down < 1;
    context.drawImage(canvas, x, y, right - x, bottom - y);
    if (!patch.framed) return;
    context.strokeStyle = this.inks.accent;
    context.lineWidth = 1.5;
    context.strokeRect(x, y, Math.max(3, right - x), Math.max(3, bottom - y));
  }

  /** The row and column of the pointer, and what is pinned. */
  private drawAbove(found: HoveredCell | null): void {
    const { plot, part } = this;
    if (!plot) return;
    const { frame } = part;
    const context = resizeCanvas(this.above, frame.width, frame.height);
    context.save();
    context.beginPath();
    context.rect(frame.left - 1, frame.top - 1, frame.wide + 2, frame.high + 2);
    context.clip();
    context.strokeStyle = this.inks.accent;
    if (plot.marked) this.drawMarked(context, plot.marked);
    if (plot.pinned) this.drawPinned(context, plot.pinned);
    if (found) this.drawPointed(context, found, plot);
    context.restore();
    if (found) this.drawBold(context, plot, found);
  }

  private drawPinned(context: CanvasRenderingContext2D, pinned: NonNullable<Plot["pinned"]>): void {
    const { part } = this;
    const { frame } = part;
    const byRow = pinned.axis === "row";
    const [x, y] = part.point(pinned.start, pinned.start);
    const [right, bottom] = part.point(pinned.stop, pinned.stop);
    const size = byRow ? bottom - y : right - x;
    const away = size < THIN ? 2 : 0; // around what a frame would hide
    context.lineWidth = size < THIN ? 1 : 2;
    if (byRow) context.strokeRect(frame.left, y - away, frame.wide, bottom - y + 2 * away);
    else context.strokeRect(x - away, frame.top, right - x + 2 * away, frame.high);
  }

  private drawMarked(context: CanvasRenderingContext2D, marked: NonNullable<Plot["marked"]>): void {
    for (const row of marked.rows) this.drawPinned(context, { axis: "row", start: row, stop: row + 1 });
    for (const column of marked.columns) this.drawPinned(context, { axis: "column", start: column, stop: column + 1 });
  }

  private drawPointed(context: CanvasRenderingContext2D, found: HoveredCell, plot: Plot): void {
    const { part } = this;
    const { frame } = part;
    const [rows, columns] = this.spanOf(found, plot);
    const [x, y] = part.point(columns[0], rows[0]);
    const [right, bottom] = part.point(columns[1], rows[1]);
    context.globalAlpha = 0.55;
    context.lineWidth = 1;
    context.strokeRect(frame.left, y, frame.wide, Math.max(1, bottom - y));
    context.strokeRect(x, frame.top, Math.max(1, right - x), frame.high);
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeRect(x, y, Math.max(2, right - x), Math.max(2, bottom - y));
  }

  private spanOf(found: HoveredCell, plot: Plot): [[number, number], [number, number]] {
    const [high, wide] = found.patch ? [1, 1] : plot.cells;
    const [row, column] = [found.row - (found.row % high), found.column - (found.column % wide)];
    return [
      [row, Math.min(row + high, plot.rows.count)],
      [column, Math.min(column + wide, plot.columns.count)],
    ];
  }

  /** The names of the pointer's row and column over the others. */
  private drawBold(context: CanvasRenderingContext2D, plot: Plot, found: HoveredCell): void {
    const { frame } = this.part;
    const [rows, columns] = this.spanOf(found, plot);
    const font = `600 ${frame.font}`;
    context.font = font;
    const paper = getComputedStyle(this.element).getPropertyValue("--paper");
    const [x, y] = this.part.point((columns[0] + columns[1]) / 2, (rows[0] + rows[1]) / 2);
    const text = name(plot.rows, rows[0], font, frame.left - 12);
    const wide = width(text, font);
    context.fillStyle = paper;
    context.fillRect(frame.left - 12 - wide, y - 8, wide + 8, 16);
    context.fillStyle = this.inks.accent;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(text, frame.left - 8, y);
    context.save();
    this.clearColumnName(context, x, width(visible(plot.columns.text(columns[0])), font), paper);
    context.font = font;
    context.fillStyle = this.inks.accent;
    drawColumnName(context, this.part, plot.columns, columns[0], x);
    context.restore();
  }

  private clearColumnName(context: CanvasRenderingContext2D, x: number, wide: number, paper: string): void {
    const { frame } = this.part;
    context.save();
    context.translate(x, frame.top - (frame.turn === 0 ? 10 : 6));
    context.rotate(frame.turn);
    context.fillStyle = paper;
    const start = frame.turn === 0 ? -wide / 2 - 3 : -4;
    context.fillRect(start, -8, Math.min(wide + 8, frame.top * 1.4), 16);
    context.restore();
  }

  /** What lies under a point of the screen. */
  private under(event: MouseEvent): { found: HoveredCell | null; row: number | null; column: number | null } {
    const { plot, part } = this;
    if (!plot) return { found: null, row: null, column: null };
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const [atColumn, atRow] = part.at(x, y);
    const [column, row] = [Math.floor(atColumn), Math.floor(atRow)];
    const { left, top, wide, high } = part.frame;
    const inRows = y >= top && y < top + high && row >= 0 && row < plot.rows.count;
    const inColumns = x >= left && x < left + wide && column >= 0 && column < plot.columns.count;
    const found = inRows && inColumns ? this.weightAt(plot, row, column) : null;
    return { found, row: inRows ? row : null, column: inColumns && y < top + high ? column : null };
  }

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

  /** Mark a cell that another panel's pointer is on. */
  point(found: { row: number; column: number } | null): void {
    this.drawAbove(found && this.plot ? this.weightAt(this.plot, found.row, found.column) : null);
  }

  private pointed(event: PointerEvent): void {
    if (this.pressed && this.drag(event)) return;
    const { found } = this.under(event);
    this.drawAbove(found);
    this.listener.hover(found, event);
  }

  private drag(event: PointerEvent): boolean {
    const pressed = this.pressed!;
    const [x, y] = [event.clientX - pressed.x, event.clientY - pressed.y];
    if (this.part.zoom === 1 || (!pressed.moved && Math.hypot(x, y) < 5)) return false;
    this.pressed = { x: event.clientX, y: event.clientY, moved: true };
    this.part.move(x, y);
    this.draw();
    return true;
  }

  private left(event: PointerEvent): void {
    this.drawAbove(null);
    this.listener.hover(null, event);
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.pressed = { x: event.clientX, y: event.clientY, moved: false };
    if (this.part.zoom > 1) this.element.setPointerCapture(event.pointerId);
  }

  private release(event: PointerEvent): void {
    const { pressed } = this;
    this.pressed = null;
    if (!pressed || pressed.moved || Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) > 5) return;
    const { row, column } = this.under(event);
    if (row !== null && !(event.shiftKey && column !== null)) this.listener.pin("row", row);
    else if (column !== null) this.listener.pin("column", column);
  }

  /** Zoom; where there is nothing to zoom out of, the page scrolls. */
  private wheel(event: WheelEvent): void {
    const { part } = this;
    const box = this.canvas.getBoundingClientRect();
    const before = part.zoom;
    if ((event.deltaY > 0 && before <= 1) || (event.deltaY < 0 && before >= part.most)) return;
    event.preventDefault();
    part.zoomAt(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    this.draw();
  }

  /** Move a row or column to where it is seen. */
  reveal(axis: "row" | "column", index: number): void {
    const { part, plot } = this;
    if (!plot) return;
    const [first, last] = axis === "row" ? part.seenRows : part.seenColumns;
    if (index >= first && index < last) return;
    const [across, down] = part.size;
    const middle = (first + last) / 2;
    part.move(axis === "column" ? (middle - index) * across : 0, axis === "row" ? (middle - index) * down : 0);
    this.draw();
  }
}

/** A weight, with the positions of its row and column. */
export function positions(found: HoveredCell): string {
  return `${found.row + 1} → ${found.column + 1}`;
}

