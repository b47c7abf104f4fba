/** Queries x keys of one head, with what a pinned row or column looked at beside it. */
import { percent } from "../captions";
import { h } from "../dom";
import { visible } from "../token-text";
import { legend } from "../legend";
import type { Drawing, Look } from "../view";
import type { Part, Side } from "../map/layout";
import { MapPanel, positions, type Found, type Patch } from "../map/panel";
import { Windows } from "../map/exact-windows";
import { largest as largestOf, type Matrix } from "../matrix";
import { grid, shades, type Grid } from "../numbers/heatmap";
import { covering, drawingOf } from "../numbers/finding-marks";
import { labelAt, type Label } from "../numbers/labelled-map";
import type { Site } from "../scene";
import type { Axis, Stream } from "../token-streams";
import { say } from "../text";
import { topList } from "../top-tokens";

const TOP = 8;

export function sideOf(labels: Label[]): Side {
  return {
    count: labels.length,
    text: (index) => labels[index]!.text,
    special: (index) => labels[index]!.special,
  };
}

/** Every token of a long axis, though only cells of them are known. */
function tokenSide(axis: Axis, stream: Stream): Side {
  return {
    count: axis.length,
    text: (index) => stream.texts[axis.places[index]!]!,
    special: (index) => stream.special.has(axis.places[index]!),
  };
}

export class HeatmapView implements Drawing {
  readonly element: HTMLElement;
  private readonly panel: MapPanel;
  private readonly beside = h("aside", { class: "beside" });
  private readonly bar = h("div", { class: "legend" });
  private readonly asked = new Windows();
  private look!: Look;
  private grid!: Grid;
  private site!: Site;
  private sides!: { rows: Side; columns: Side };

  constructor() {
    this.panel = new MapPanel({
      hover: (found, event) => this.hover(found, event),
      pin: (axis, index) => this.pin(axis, index),
      moved: (part) => this.moved(part),
    }, () => this.room());
    const main = h("div", { class: "main" }, [this.panel.element, this.bar]);
    this.element = h("div", { class: "split" }, [main, this.beside]);
  }

  /** What is left beside the list, or all of it where the list stands below. */
  private room(): number {
    const whole = this.element.clientWidth;
    const below = getComputedStyle(this.element).flexDirection === "column";
    return below ? whole : whole - this.beside.offsetWidth - parseFloat(getComputedStyle(this.element).columnGap);
  }

  show(look: Look): string {
    const { scene, state } = look;
    const traced = scene.trace(state.trace);
    this.look = look;
    this.site = traced.site(state.site);
    this.grid = grid(scene, state);
    const { rows, columns } = this.site;
    this.sides = this.site.long
      ? { rows: tokenSide(rows, traced.stream(rows)), columns: tokenSide(columns, traced.stream(columns)) }
      : { rows: sideOf(this.grid.rows), columns: sideOf(this.grid.columns) };
    this.draw();
    if (this.site.long) this.loadMore();
    return this.grid.caption;
  }

  private draw(): void {
    const { look, grid: { weights } } = this;
    this.bar.replaceChildren(legend(look, largestOf(weights.data)));
    this.fillBeside();
    this.panel.show(
      {
        weights,
        shades: this.grid.shades,
        ...this.sides,
        cells: this.grid.cells,
        colours: look.colours.weights,
        patches: this.patches(),
        pinned: this.pinned(),
        marked: this.marked(),
      },
      this.grid.caption,
    );
  }

  /** The windows and the largest weights of a long map come after its first picture. */
  private loadMore(): void {
    const { look, site } = this;
    const windows = this.windows().map((each) => each.blob);
    const wanted = [...windows, ...this.largestBlobs()];
    if (wanted.every((blob) => look.scene.has(blob))) return;
    void look.scene.load(wanted).then(() => {
      if (this.look === look && this.site === site && windows.length) this.draw();
    });
  }

  private windows(): Site["header"]["windows"] {
    return this.site.header.windows.filter(({ head }) => head === this.look.state.head);
  }

  private largestBlobs(): number[] {
    const { head } = this.look.state;
    const maps = this.site.header.largest?.maps ?? [];
    return head === null ? maps : maps.slice(head, head + 1);
  }

  private patches(): Patch[] {
    const { scene, state } = this.look;
    if (!this.site.long) return [];
    const there = this.windows().filter(({ blob }) => scene.has(blob));
    const chosen = there.map(({ rows, columns, blob }) => ({ rows, columns, weights: scene.loaded(blob), framed: true }));
    const asked = this.asked.of(state.trace, this.site.name, state.head);
    return [...asked.map((each) => ({ ...each, framed: false })), ...chosen].map((each) => ({
      ...each,
      shades: shades(each.weights, state.scale),
    }));
  }

  /** Ask for what is seen now, where someone can be asked. */
  private moved(part: Part): void {
    const { look, site } = this;
    const { trace, head } = look.state;
    if (!look.ask || !site.long || head === null || part.zoom === 1) return;
    this.asked.want(look.ask, { trace, site: site.name, head }, part, () => {
      if (this.site === site && this.look.state.head === head) this.draw();
    });
  }

  private pinned(): { axis: "row" | "column"; start: number; stop: number } | null {
    const { axis, place } = this.look.state;
    if (place === null) return null;
    if (this.site.long) return { axis, start: place, stop: place + 1 };
    const index = labelAt(axis === "row" ? this.grid.rows : this.grid.columns, place);
    return { axis, start: index, stop: index + 1 };
  }

  /** What the open finding is about. */
  private marked(): { rows: number[]; columns: number[] } {
    const { rows, columns } = drawingOf(this.look.scene, this.look.state);
    if (this.site.long) return { rows, columns };
    return { rows: covering(this.grid.rows, rows), columns: covering(this.grid.columns, columns) };
  }

  private pin(axis: "row" | "column", index: number): void {
    const labels = axis === "row" ? this.grid.rows : this.grid.columns;
    const place = this.site.long ? index : labels[index]!.start;
    const { state } = this.look;
    const again = state.axis === axis && state.place === place;
    this.look.change({ axis, place: again ? null : place });
  }

  private hover(found: Found | null, event: PointerEvent): void {
    if (!found) return this.look.tip.hide();
    this.look.tip.show(event, [this.told(found), positions(found)]);
  }

  private told(found: Found): string {
    const high = found.patch ? 1 : this.grid.cells[0];
    const wide = found.patch ? 1 : this.grid.cells[1];
    const values = {
      row: visible(this.sides.rows.text(found.row - (found.row % high))),
      column: visible(this.sides.columns.text(found.column - (found.column % wide))),
      weight: percent(found.weight),
    };
    const most = this.site.long && !found.patch ? this.largestAt(found) : null;
    if (most === null) return say("hover.weight", this.look.language, values);
    return say("hover.cell", this.look.language, { ...values, largest: percent(most) });
  }

  /** The largest weight near a place of a long map, over the heads that are shown. */
  private largestAt(found: Found): number | null {
    const { scene } = this.look;
    const blobs = this.largestBlobs();
    if (!blobs.length || !blobs.every((blob) => scene.has(blob))) return null;
    const [high, wide] = this.site.header.largest!.cells;
    const at = ({ data, columns }: Matrix): number =>
      data[Math.floor(found.row / high) * columns + Math.floor(found.column / wide)]!;
    return Math.max(...blobs.map((blob) => at(scene.loaded(blob))));
  }

  private fillBeside(): void {
    const { look, site } = this;
    const parts: HTMLElement[] = [];
    const pinned = this.pinned();
    if (pinned && !site.long) parts.push(this.lineList(pinned));
    else parts.push(h("p", { class: "hint" }, [say("hint.map", look.language)]));
    if (site.long) parts.push(...this.longParts());
    this.beside.replaceChildren(...parts);
  }

  /** What the pinned row looked at, or what looked at the pinned column. */
  private lineList({ axis, start }: { axis: "row" | "column"; start: number }): HTMLElement {
    const { weights, rows, columns } = this.grid;
    const byRow = axis === "row";
    const across = byRow ? columns : rows;
    const cell = (index: number): number =>
      weights.data[byRow ? start * weights.columns + index : index * weights.columns + start]!;
    const order = [...across.keys()].sort((one, two) => cell(two) - cell(one) || one - two);
    const top = order.slice(0, TOP).filter((index) => cell(index) !== 0);
    const token = visible((byRow ? rows : columns)[start]!.text);
    const title = say(`caption.highlight.${axis}`, this.look.language, { token });
    return topList(this.look, title, top.map((index) => [across[index]!.text, cell(index)]));
  }

  private longParts(): HTMLElement[] {
    const { look } = this;
    const parts: HTMLElement[] = [];
    const windows = this.windows();
    if (windows.length) {
      const items = windows.map(({ rows, columns }) =>
        h("button", { type: "button", class: "chip" },
          [`${rows[0] + 1}–${rows[1]} × ${columns[0] + 1}–${columns[1]}`],
          { click: () => { this.panel.part.fit(columns, rows); this.panel.draw(); } }),
      );
      const title = h("h2", {}, [say("windows.title", look.language)]);
      const note = h("p", { class: "hint" }, [say("windows.note", look.language)]);
      parts.push(h("section", { class: "windows" }, [title, ...items, note]));
    }
    const { more } = look.scene.header;
    if (more) parts.push(moreNote(look, more));
    return parts;
  }

  resize(): void {
    this.panel.layout();
  }

  reveal(axis: "row" | "column", place: number): void {
    const labels = axis === "row" ? this.grid.rows : this.grid.columns;
    this.panel.reveal(axis, this.site.long ? place : labelAt(labels, place));
  }
}

/** Where to get what a page leaves out. */
export function moreNote(look: Look, more: string): HTMLElement {
  const text = say("long.more", look.language, { more: "\u0000" });
  const [before, after] = text.split("\u0000");
  return h("p", { class: "hint" }, [before ?? "", h("code", {}, [more]), after ?? ""]);
}
