/** The flow view: lines from token to token, on a canvas. */
import { percent } from "../captions";
import { h, resizeCanvas } from "../dom";
import { flowNumbers, type FlowLine, type FlowNumbers } from "../numbers/flow";
import { tickStep } from "../numbers/heatmap";
import { say } from "../text";
import { truncate, FONT, isolated, visible, width } from "../token-text";
import type { View, ViewProps } from "../view";

const FONT_SIZE = 13;
const TALLEST = 7000; // pixels; browsers refuse much larger canvases
const ALL_SHOWN = 64; // texts of at most this many tokens show all of them; longer ones only those with lines
const GAP = 0.7; // rows of space where tokens are left out
const LABEL_HEIGHT = 16; // pixels
const TOP = 28; // pixels for the headings

/** A token of the picture: its column and its index there. */
interface Spot {
  level: number;
  index: number;
}

export class FlowView implements View {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { role: "img" });
  private readonly hint = h("p", { class: "hint" });
  private props!: ViewProps;
  private flow!: FlowNumbers;
  private font = `${FONT_SIZE}px ${FONT}`;
  private spot: Spot | null = null;
  /** The row of each token in each column; undefined if the token is left out. */
  private rows: (number | undefined)[][] = [];

  constructor() {
    const holder = h("div", { class: "flow" }, [this.canvas, this.hint]);
    this.element = holder;
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => this.leave());
    this.canvas.addEventListener("click", (event) => this.click(event));
  }

  show(props: ViewProps): string {
    this.props = props;
    this.flow = flowNumbers(props.scene, props.state);
    this.rows = this.assignRows();
    this.spot = null;
    const whole = this.rows.every((each) => each.every((row) => row !== undefined));
    this.hint.textContent = say(whole ? "hint.flow" : "hint.flow.long", props.language);
    this.canvas.setAttribute("aria-label", this.flow.caption);
    this.draw();
    return this.flow.caption;
  }

  get threshold(): number {
    return this.flow.threshold;
  }

  resize(): void {
    this.draw();
  }

  /** Queries are left of their keys; over several layers or decoding steps, outputs are right of their sources. */
  private get reversed(): boolean {
    return this.props.state.span !== "layers";
  }

  /** The rows of all tokens; of a long text only of those that have lines or are pinned. */
  private assignRows(): (number | undefined)[][] {
    const { levels, lines: drawn } = this.flow;
    if (Math.max(...levels.map((each) => each.length)) <= ALL_SHOWN) {
      return levels.map((labels) => labels.map((_, index) => index));
    }
    const withLines = levels.map((labels, level) => {
      const pinned = labels.flatMap(({ start, stop }, index) => (this.isPinned(level, start, stop) ? [index] : []));
      return new Set(pinned);
    });
    for (const { level, start, stop } of drawn) {
      withLines[level]!.add(start);
      withLines[level + 1]!.add(stop);
    }
    if (levels.length > 2) {
      const every = new Set(withLines.flatMap((each) => [...each])); // a token is at the same height in all layers
      return levels.map((labels) => numberShown(labels.length, every));
    }
    return levels.map((labels, level) => numberShown(labels.length, withLines[level]!));
  }

  /** The number of rows of the longest column. */
  private get most(): number {
    return Math.max(1, ...this.rows.map((each) => (each.findLast((row) => row !== undefined) ?? 0) + 1));
  }

  private get rowHigh(): number {
    return Math.min(26, Math.max(3, TALLEST / this.most));
  }

  private get wide(): number {
    return Math.min(this.element.clientWidth, 360 + 240 * (this.flow.levels.length - 1));
  }

  /** The width of the labels at both ends. */
  private get rooms(): [number, number] {
    const { levels } = this.flow;
    const longest = (names: { text: string }[]): number => {
      const step = Math.max(1, Math.floor(names.length / 300));
      let found = 0;
      for (let index = 0; index < names.length; index += step) {
        found = Math.max(found, width(visible(names[index]!.text), this.font));
      }
      return Math.max(56, Math.min(found + 14, this.wide * 0.3));
    };
    const ends = [longest(levels[0]!), longest(levels.at(-1)!)] as [number, number];
    return this.reversed ? [ends[1], ends[0]] : ends;
  }

  /** The point of the canvas where a token is. */
  private pointOf(level: number, index: number): [number, number] {
    const [left, right] = this.rooms;
    const last = this.flow.levels.length - 1;
    const step = (this.wide - left - right) / last;
    const column = this.reversed ? last - level : level;
    return [left + column * step, TOP + ((this.rows[level]![index] ?? 0) + 0.5) * this.rowHigh];
  }

  private draw(): void {
    const { flow, spot } = this;
    const context = resizeCanvas(this.canvas, this.wide, TOP + this.most * this.rowHigh + 8);
    const style = getComputedStyle(this.element);
    const ink = (name: string): string => style.getPropertyValue(name).trim();
    const touches = (line: FlowLine): boolean =>
      !spot ||
      (line.level === spot.level && line.start === spot.index) ||
      (line.level + 1 === spot.level && line.stop === spot.index);
    for (const line of flow.lines) if (!touches(line)) this.drawLine(context, line, 0.12);
    for (const line of flow.lines) if (touches(line)) this.drawLine(context, line, 1);
    context.globalAlpha = 1;
    flow.levels.forEach((_, level) => this.drawColumn(context, level, ink));
  }

  /** Draw a curve with an arrow; wider and darker for a larger weight. */
  private drawLine(context: CanvasRenderingContext2D, line: FlowLine, strength: number): void {
    const { props, flow } = this;
    let from = this.pointOf(line.level, line.start);
    let to = this.pointOf(line.level + 1, line.stop);
    if (this.reversed) [from, to] = [to, from];
    const most = props.state.span === "all" ? (flow.lines.at(-1)?.weight ?? 1) : 1;
    const weight = Math.min(1, line.weight / most);
    const single = props.state.span !== "layers" || props.state.head !== null;
    const colour = single ? getComputedStyle(this.element).getPropertyValue("--line") : props.colours.head(line.head ?? 0);
    const [pad, end] = [4, 5];
    const [x0, x1] = [from[0] + pad, to[0] - end];
    const middle = (x0 + x1) / 2;
    context.globalAlpha = strength * (0.18 + 0.77 * weight ** 0.75);
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 0.7 + 5 * weight;
    context.beginPath();
    context.moveTo(x0, from[1]);
    context.bezierCurveTo(middle, from[1], middle, to[1], x1 - 2, to[1]);
    context.stroke();
    const head = 2.2 + 2.6 * weight; // of the arrow
    context.beginPath();
    context.moveTo(x1 + 3, to[1]);
    context.lineTo(x1 - head, to[1] - head);
    context.lineTo(x1 - head, to[1] + head);
    context.fill();
  }

  /** Draw one column of tokens: labels at the ends, dots between layers. */
  private drawColumn(context: CanvasRenderingContext2D, level: number, ink: (name: string) => string): void {
    const { flow, spot } = this;
    const labels = flow.levels[level]!;
    const last = flow.levels.length - 1;
    const inner = level > 0 && level < last;
    const isLeft = this.reversed ? level === last : level === 0;
    const room = this.rooms[isLeft ? 0 : 1] - 10;
    const whole = this.rows[level]!.every((row) => row !== undefined);
    const step = whole ? tickStep(labels.length, Math.floor((labels.length * this.rowHigh) / LABEL_HEIGHT)) : 1;
    this.drawHeading(context, level, ink("--faint"));
    let lowest = -Infinity;
    labels.forEach((label, index) => {
      if (this.rows[level]![index] === undefined) return;
      const [x, y] = this.pointOf(level, index);
      const near = spot?.level === level && spot.index === index;
      const pinned = this.isPinned(level, label.start, label.stop);
      if (inner) {
        if (!near && this.rowHigh < 6) return;
        context.fillStyle = near ? ink("--accent") : ink("--rule");
        context.beginPath();
        context.arc(x, y, near ? 4 : 2, 0, 7);
        context.fill();
        return;
      }
      if ((index % step || (!whole && y - lowest < LABEL_HEIGHT)) && !near && !pinned) return;
      lowest = y;
      context.font = near || pinned ? `600 ${this.font}` : this.font;
      context.fillStyle = near || pinned ? ink("--accent") : label.special ? ink("--faint") : ink("--ink");
      context.textAlign = isLeft ? "right" : "left";
      context.textBaseline = "middle";
      context.fillText(isolated(truncate(visible(label.text), context.font, room)), isLeft ? x - 4 : x + 6, y);
    });
  }

  /** Write "Queries" and "Keys" above two columns, layer numbers between more. */
  private drawHeading(context: CanvasRenderingContext2D, level: number, colour: string): void {
    const { language } = this.props;
    context.textBaseline = "middle";
    const last = this.flow.levels.length - 1;
    if (last === 1) {
      const isQuery = level === 0;
      const text = say(isQuery ? "text.rows" : "text.columns", language);
      const isLeft = this.reversed ? level === last : level === 0;
      const [x] = this.pointOf(level, 0);
      context.font = `11px ${FONT}`;
      context.fillStyle = colour;
      context.textAlign = isLeft ? "right" : "left";
      context.fillText(text, isLeft ? x - 4 : x + 6, 10);
    } else if (level < last) {
      const [one] = this.pointOf(level, 0);
      const [two] = this.pointOf(level + 1, 0);
      context.font = `11px ${FONT}`;
      context.fillStyle = colour;
      context.textAlign = "center";
      context.fillText(String(last - 1 - level), (one + two) / 2, 10);
    }
  }

  /** Whether the token is pinned; lines through all layers end at one token even if none is. */
  private isPinned(level: number, start: number, stop: number): boolean {
    const { place, axis, span } = this.props.state;
    if (span === "all") {
      const labels = this.flow.levels[0]!;
      const at = place ?? labels[labels.length - 1]!.start;
      return level === 0 && start <= at && at < stop;
    }
    return place !== null && (axis === "row" ? level === 0 : level === 1) && start <= place && place < stop;
  }

  /** The token near the pointer. */
  private spotAt(event: MouseEvent): Spot | null {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const row = (y - TOP) / this.rowHigh - 0.5;
    const last = this.flow.levels.length - 1;
    const [left, right] = this.rooms;
    const step = (this.wide - left - right) / last;
    const column = Math.round((x - left) / step);
    const near = x < left + 8 || x > this.wide - right - 8 || Math.abs(x - left - column * step) < Math.min(30, step / 4);
    const clamped = Math.min(last, Math.max(0, column));
    const level = this.reversed ? last - clamped : clamped;
    const index = this.rows[level]!.findIndex((each) => each !== undefined && Math.abs(each - row) <= 0.5);
    return near && index >= 0 ? { level, index } : null;
  }

  private hover(event: PointerEvent): void {
    const spot = this.spotAt(event);
    this.canvas.style.cursor = spot ? "pointer" : "";
    if (spot?.level !== this.spot?.level || spot?.index !== this.spot?.index) {
      this.spot = spot;
      this.draw();
    }
    if (!spot) return this.props.tooltip.hide();
    const mine = this.flow.lines.filter(
      (line) =>
        (line.level === spot.level && line.start === spot.index) ||
        (line.level + 1 === spot.level && line.stop === spot.index),
    );
    const label = visible(this.flow.levels[spot.level]![spot.index]!.text);
    this.props.tooltip.show(event, mine.length ? mine.slice(-6).reverse().map((line) => this.told(line)) : [label]);
  }

  private told(line: FlowLine): string {
    const { levels } = this.flow;
    const values = {
      row: visible(levels[line.level]![line.start]!.text),
      column: visible(levels[line.level + 1]![line.stop]!.text),
      weight: percent(line.weight),
    };
    const text = say("hover.weight", this.props.language, values);
    const { state, scene } = this.props;
    if (line.head === null || state.head !== null) return text;
    return `${text}  (${say("control.head", this.props.language)} ${scene.trace(state.trace).site(state.site).number(line.head)})`;
  }

  private leave(): void {
    this.props.tooltip.hide();
    if (this.spot) {
      this.spot = null;
      this.draw();
    }
  }

  private click(event: MouseEvent): void {
    const spot = this.spotAt(event);
    const { state, change } = this.props;
    if (!spot) return;
    const axis = state.span !== "all" && spot.level === 1 ? "column" : "row";
    const place = this.flow.levels[spot.level]![spot.index]!.start;
    const isPinned = state.axis === axis && state.place === place;
    change({ axis, place: isPinned ? null : place });
  }
}

/** Number the shown tokens from 0, with a gap where others are left out; undefined for those. */
function numberShown(count: number, shown: Set<number>): (number | undefined)[] {
  let next = 0;
  return Array.from({ length: count }, (_, index) => {
    if (!shown.has(index)) return undefined;
    if (index > 0 && next > 0 && !shown.has(index - 1)) next += GAP;
    return next++;
  });
}
