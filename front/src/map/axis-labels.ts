/** Draws the labels of rows and columns beside a map; every n-th one where there is no room for all. */
import { tickStep } from "../numbers/heatmap";
import { truncate, isolated, visible } from "../token-text";
import { LINE, SLANT, SLANTED, UPRIGHT, type Viewport, type AxisLabels } from "./layout";

/** Colours of the page's style that a canvas needs. */
export interface TextColours {
  text: string;
  faint: string;
  accent: string;
}

/** Draw the labels of the visible rows, left of the map. */
export function drawRowLabels(context: CanvasRenderingContext2D, viewport: Viewport, labels: AxisLabels, colours: TextColours): void {
  const { frame } = viewport;
  const [, down] = viewport.size;
  const [first, last] = viewport.visibleRows;
  const step = tickStep(last - first, Math.floor(frame.high / LINE));
  context.font = frame.font;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let row = Math.ceil(first / step) * step; row < last; row += step) {
    const y = viewport.point(0, row + 0.5)[1];
    if (y < frame.top || y > frame.top + frame.high) continue;
    context.fillStyle = labels.special(row) ? colours.faint : colours.text;
    context.fillText(labelText(labels, row, frame.font, frame.left - 12), frame.left - 8, y);
    if (step > 1) drawTick(context, frame.left - 5, y - down / 2 + Math.min(down / 2, 1), 4, 1, colours);
  }
}

/** Draw the labels of the visible columns, above the map. */
export function drawColumnLabels(context: CanvasRenderingContext2D, viewport: Viewport, labels: AxisLabels, colours: TextColours): void {
  const { frame } = viewport;
  const [first, last] = viewport.visibleColumns;
  const room = frame.turn === 0 ? viewport.size[0] : frame.turn === SLANT ? SLANTED : LINE;
  const step = tickStep(last - first, Math.max(1, Math.floor(frame.wide / room)));
  context.font = frame.font;
  context.textBaseline = "middle";
  for (let column = Math.ceil(first / step) * step; column < last; column += step) {
    const x = viewport.point(column + 0.5, 0)[0];
    if (x < frame.left || x > frame.left + frame.wide) continue;
    context.fillStyle = labels.special(column) ? colours.faint : colours.text;
    drawColumnLabel(context, viewport, labels, column, x);
  }
}

export function drawColumnLabel(
  context: CanvasRenderingContext2D, viewport: Viewport, labels: AxisLabels, column: number, x: number,
): void {
  const { frame } = viewport;
  const room = frame.turn === 0 ? viewport.size[0] - 4 : (frame.top - 12) / (frame.turn === SLANT ? 0.72 : 1);
  context.save();
  context.translate(x, frame.top - (frame.turn === 0 ? LINE / 2 + 2 : 6));
  context.rotate(frame.turn);
  context.textAlign = frame.turn === 0 ? "center" : "left";
  if (frame.turn === SLANT) context.translate(-2, 0);
  context.fillText(labelText(labels, column, frame.font, room), 0, frame.turn === UPRIGHT ? 1 : 0);
  context.restore();
}

/** The label as it is drawn: invisible characters spelled out, cut to the room. */
export function labelText(labels: AxisLabels, index: number, font: string, room: number): string {
  return isolated(truncate(visible(labels.text(index)), font, room));
}

function drawTick(context: CanvasRenderingContext2D, x: number, y: number, wide: number, high: number, colours: TextColours): void {
  context.fillStyle = colours.faint;
  context.fillRect(x, y, wide, high);
}
