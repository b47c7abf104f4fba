/** The heatmap view: queries x keys of one head, and beside it the largest weights of the pinned row or column. */
import { percent } from "../captions";
import { h } from "../dom";
import { legend } from "../legend";
import { ExactWindows } from "../map/exact-windows";
import type { Viewport, AxisLabels } from "../map/layout";
import { MapPanel, positions, type HoveredCell, type Patch } from "../map/panel";
import { largest as largestOf, type Matrix } from "../matrix";
import { labelsCovering, openFindingDrawing } from "../numbers/finding-marks";
import { heatmapNumbers, shadeWeights, type HeatmapNumbers } from "../numbers/heatmap";
import { labelAt, type Label } from "../numbers/labelled-map";
import type { SceneSite } from "../scene";
import { say } from "../text";
import type { Axis, TokenStream } from "../token-streams";
import { visible } from "../token-text";
import { topTokens } from "../top-tokens";
import type { View, ViewProps } from "../view";

const LISTED = 8; // weights of the pinned row or column

/** Labels of rows or columns for the map panel. */
export function axisLabels(labels: Label[]): AxisLabels {
  return {
    count: labels.length,
    text: (index) => labels[index]!.text,
    special: (index) => labels[index]!.special,
  };
}

/** The labels of a long axis: every token, although weights are known only for cells of them. */
function tokenAxisLabels(axis: Axis, stream: TokenStream): AxisLabels {
  return {
    count: axis.length,
    text: (index) => stream.texts[axis.places[index]!]!,
    special: (index) => stream.special.has(axis.places[index]!),
  };
}

export class HeatmapView implements View {
  readonly element: HTMLElement;
  private readonly panel: MapPanel;
  private readonly beside = h("aside", { class: "beside" });
  private readonly bar = h("div", { class: "legend" });
  private readonly fetched = new ExactWindows();
  private props!: ViewProps;
  private numbers!: HeatmapNumbers;
  private site!: SceneSite;
  private sides!: { rows: AxisLabels; columns: AxisLabels };

  constructor() {
    this.panel = new MapPanel({
      hover: (cell, event) => this.hover(cell, event),
      pin: (axis, index) => this.pin(axis, index),
      moved: (viewport) => this.moved(viewport),
    }, () => this.room());
    const main = h("div", { class: "main" }, [this.panel.element, this.bar]);
    this.element = h("div", { class: "split" }, [main, this.beside]);
  }

  /** The width for the map: without the list beside it, or all of it where the list is below. */
  private room(): number {
    const whole = this.element.clientWidth;
    const below = getComputedStyle(this.element).flexDirection === "column";
    return below ? whole : whole - this.beside.offsetWidth - parseFloat(getComputedStyle(this.element).columnGap);
  }

  show(props: ViewProps): string {
    const { scene, state } = props;
    const sceneTrace = scene.trace(state.trace);
    this.props = props;
    this.site = sceneTrace.site(state.site);
    this.numbers = heatmapNumbers(scene, state);
    const { rows, columns } = this.site;
    this.sides = this.site.long
      ? { rows: tokenAxisLabels(rows, sceneTrace.stream(rows)), columns: tokenAxisLabels(columns, sceneTrace.stream(columns)) }
      : { rows: axisLabels(this.numbers.rows), columns: axisLabels(this.numbers.columns) };
    this.draw();
    if (this.site.long) this.loadMore();
    return this.numbers.caption;
  }

  private draw(): void {
    const { props, numbers: { weights } } = this;
    this.bar.replaceChildren(legend(props, largestOf(weights.data)));
    this.fillBeside();
    this.panel.show(
      {
        weights,
        shades: this.numbers.shades,
        ...this.sides,
        cells: this.numbers.cells,
        colours: props.colours.weights,
        patches: this.patches(),
        pinned: this.pinned(),
        marked: this.marked(),
      },
      this.numbers.caption,
    );
  }

  /** Load the windows and the largest weights of a long map after it is drawn first, and draw it again. */
  private loadMore(): void {
    const { props, site } = this;
    const windows = this.windows().map((each) => each.blob);
    const blobs = [...windows, ...this.largestBlobs()];
    if (blobs.every((blob) => props.scene.has(blob))) return;
    void props.scene.load(blobs).then(() => {
      if (this.props === props && this.site === site && windows.length) this.draw();
    });
  }

  /** The exact windows of the shown head that the page holds. */
  private windows(): SceneSite["header"]["windows"] {
    return this.site.header.windows.filter(({ head }) => head === this.props.state.head);
  }

  /** The blobs with the largest weight of each cell, of the heads that are shown. */
  private largestBlobs(): number[] {
    const { head } = this.props.state;
    const maps = this.site.header.largest?.maps ?? [];
    return head === null ? maps : maps.slice(head, head + 1);
  }

  /** Exact windows: those fetched while zooming, and over them those of the page. */
  private patches(): Patch[] {
    const { scene, state } = this.props;
    if (!this.site.long) return [];
    const there = this.windows().filter(({ blob }) => scene.has(blob));
    const chosen = there.map(({ rows, columns, blob }) => ({ rows, columns, weights: scene.loaded(blob), framed: true }));
    const fetched = this.fetched.of(state.trace, this.site.name, state.head);
    return [...fetched.map((each) => ({ ...each, framed: false })), ...chosen].map((each) => ({
      ...each,
      shades: shadeWeights(each.weights, state.scale),
    }));
  }

  /** Request exact weights of the visible part, where Python can be asked. */
  private moved(viewport: Viewport): void {
    const { props, site } = this;
    const { trace, head } = props.state;
    if (!props.requestWindow || !site.long || head === null || viewport.zoom === 1) return;
    this.fetched.request(props.requestWindow, { trace, site: site.name, head }, viewport, () => {
      if (this.site === site && this.props.state.head === head) this.draw();
    });
  }

  /** The row or column that is framed, counted in labels. */
  private pinned(): { axis: "row" | "column"; start: number; stop: number } | null {
    const { axis, place } = this.props.state;
    if (place === null) return null;
    if (this.site.long) return { axis, start: place, stop: place + 1 };
    const index = labelAt(axis === "row" ? this.numbers.rows : this.numbers.columns, place);
    return { axis, start: index, stop: index + 1 };
  }

  /** The rows and columns that the open finding is about. */
  private marked(): { rows: number[]; columns: number[] } {
    const { rows, columns } = openFindingDrawing(this.props.scene, this.props.state);
    if (this.site.long) return { rows, columns };
    return { rows: labelsCovering(this.numbers.rows, rows), columns: labelsCovering(this.numbers.columns, columns) };
  }

  /** Pin a row or column, or unpin it if it is pinned. */
  private pin(axis: "row" | "column", index: number): void {
    const labels = axis === "row" ? this.numbers.rows : this.numbers.columns;
    const place = this.site.long ? index : labels[index]!.start;
    const { state } = this.props;
    const isPinned = state.axis === axis && state.place === place;
    this.props.change({ axis, place: isPinned ? null : place });
  }

  private hover(cell: HoveredCell | null, event: PointerEvent): void {
    if (!cell) return this.props.tooltip.hide();
    this.props.tooltip.show(event, [this.cellText(cell), positions(cell)]);
  }

  /** The tooltip of a cell. */
  private cellText(cell: HoveredCell): string {
    const high = cell.patch ? 1 : this.numbers.cells[0];
    const wide = cell.patch ? 1 : this.numbers.cells[1];
    const values = {
      row: visible(this.sides.rows.text(cell.row - (cell.row % high))),
      column: visible(this.sides.columns.text(cell.column - (cell.column % wide))),
      weight: percent(cell.weight),
    };
    const most = this.site.long && !cell.patch ? this.largestAt(cell) : null;
    if (most === null) return say("hover.weight", this.props.language, values);
    return say("hover.cell", this.props.language, { ...values, largest: percent(most) });
  }

  /** The largest weight around a cell of a long map, over the heads that are shown; null if it is not loaded yet. */
  private largestAt(cell: HoveredCell): number | null {
    const { scene } = this.props;
    const blobs = this.largestBlobs();
    if (!blobs.length || !blobs.every((blob) => scene.has(blob))) return null;
    const [high, wide] = this.site.header.largest!.cells;
    const at = ({ data, columns }: Matrix): number =>
      data[Math.floor(cell.row / high) * columns + Math.floor(cell.column / wide)]!;
    return Math.max(...blobs.map((blob) => at(scene.loaded(blob))));
  }

  /** Fill the column beside the map. */
  private fillBeside(): void {
    const { props, site } = this;
    const parts: HTMLElement[] = [];
    const pinned = this.pinned();
    if (pinned && !site.long) parts.push(this.pinnedList(pinned));
    else parts.push(h("p", { class: "hint" }, [say("hint.map", props.language)]));
    if (site.long) parts.push(...this.longParts());
    this.beside.replaceChildren(...parts);
  }

  /** The tokens that the pinned row attends to, or that attend to the pinned column. */
  private pinnedList({ axis, start }: { axis: "row" | "column"; start: number }): HTMLElement {
    const { weights, rows, columns } = this.numbers;
    const byRow = axis === "row";
    const across = byRow ? columns : rows;
    const weightAt = (index: number): number =>
      weights.data[byRow ? start * weights.columns + index : index * weights.columns + start]!;
    const order = [...across.keys()].sort((one, two) => weightAt(two) - weightAt(one) || one - two);
    const top = order.slice(0, LISTED).filter((index) => weightAt(index) !== 0);
    const token = visible((byRow ? rows : columns)[start]!.text);
    const title = say(`caption.highlight.${axis}`, this.props.language, { token });
    return topTokens(this.props, title, top.map((index) => [across[index]!.text, weightAt(index)]));
  }

  /** Beside a long map: buttons that zoom to its exact windows, and how to get more. */
  private longParts(): HTMLElement[] {
    const { props } = this;
    const parts: HTMLElement[] = [];
    const windows = this.windows();
    if (windows.length) {
      const items = windows.map(({ rows, columns }) =>
        h("button", { type: "button", class: "chip" },
          [`${rows[0] + 1}–${rows[1]} × ${columns[0] + 1}–${columns[1]}`],
          { click: () => { this.panel.viewport.fit(columns, rows); this.panel.draw(); } }),
      );
      const title = h("h2", {}, [say("windows.title", props.language)]);
      const note = h("p", { class: "hint" }, [say("windows.note", props.language)]);
      parts.push(h("section", { class: "windows" }, [title, ...items, note]));
    }
    const { more } = props.scene.header;
    if (more) parts.push(moreNote(props, more));
    return parts;
  }

  resize(): void {
    this.panel.layout();
  }

  reveal(axis: "row" | "column", place: number): void {
    const labels = axis === "row" ? this.numbers.rows : this.numbers.columns;
    this.panel.reveal(axis, this.site.long ? place : labelAt(labels, place));
  }
}

/** Says how to get the parts of a long map that the page leaves out; the code in it stands in a <code> element. */
export function moreNote(props: ViewProps, more: string): HTMLElement {
  const text = say("long.more", props.language, { more: "\u0000" });
  const [before, after] = text.split("\u0000");
  return h("p", { class: "hint" }, [before ?? "", h("code", {}, [more]), after ?? ""]);
}
