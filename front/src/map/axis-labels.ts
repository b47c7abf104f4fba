/** The names of rows and columns beside a map: fewer where there is no room for all. */
import { truncate, isolated, visible } from "../token-text";
import { tickStep } from "../numbers/heatmap";
import { LINE, SLANT, SLANTED, UPRIGHT, type Viewport, type AxisLabels } from "./layout";

export interface Inks {
  name: string;
  faint: string;
  accent: string;
}

export function drawRowNames(context: CanvasRenderingContext2D, part: Viewport, side: AxisLabels, inks: Inks): void {
  const { frame } = part;
  const [, down] = part.size;
  const [first, last] = part.seenRows;
  const step = tickStep(last - first, Math.floor(frame.high / LINE));
  context.font = frame.font;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let row = Math.ceil(first / step) * step; row < last; row += step) {
    const y = part.point(0, row + 0.5)[1];
    if (y < frame.top || y > frame.top + frame.high) continue;
    context.fillStyle = side.special(row) ? inks.faint : inks.name;
    context.fillText(name(side, row, frame.font, frame.left - 12), frame.left - 8, y);
    if (step > 1) mark(context, frame.left - 5, y - down / 2 + Math.min(down / 2, 1), 4, 1, inks);
  }
}

export function drawColumnNames(context: CanvasRenderingContext2D, part: Viewport, side: AxisLabels, inks: Inks): void {
  const { frame } = part;
  const [first, last] = part.seenColumns;
  const room = frame.turn === 0 ? part.size[0] : frame.turn === SLANT ? SLANTED : LINE;
  const step = tickStep(last - first, Math.max(1, Math.floor(frame.wide / room)));
  context.font = frame.font;
  context.textBaseline = "middle";
  for (let column = Math.ceil(first / step) * step; column < last; column += step) {
    const x = part.point(column + 0.5, 0)[0];
    if (x < frame.left || x > frame.left + frame.wide) continue;
    context.fillStyle = side.special(column) ? inks.faint : inks.name;
    drawColumnName(context, part, side, column, x);
  }
}

export function drawColumnName(
  context: CanvasRenderingContext2D, part: Viewport, side: AxisLabels, column: number, x: number,
): void {
  const { frame } = part;
  const room = frame.turn === 0 ? part.size[0] - 4 : (frame.top - 12) / (frame.turn === SLANT ? 0.72 : 1);
  context.save();
  context.translate(x, frame.top - (frame.turn === 0 ? LINE / 2 + 2 : 6));
  context.rotate(frame.turn);
  context.textAlign = frame.turn === 0 ? "center" : "left";
  if (frame.turn === SLANT) context.translate(-2, 0);
  context.fillText(name(side, column, frame.font, room), 0, frame.turn === UPRIGHT ? 1 : 0);
  context.restore();
}

export function name(side: AxisLabels, index: number, font: string, room: number): string {
  return isolated(truncate(visible(side.text(index)), font, room));
}

function mark(context: CanvasRenderingContext2D, x: number, y: number, wide: number, high: number, inks: Inks): void {
  context.fillStyle = inks.faint;
  context.fillRect(x, y, wide, high);
}
