/** The comparison view: two maps side by side, and the first minus the second. */
import { percent } from "../captions";
import { h } from "../dom";
import { legend } from "../legend";
import { MapPanel, positions, type HoveredCell } from "../map/panel";
import { largest, type Matrix } from "../matrix";
import { compareNumbers, type CompareNumbers } from "../numbers/compare";
import { shadeWeights } from "../numbers/heatmap";
import { labelAt } from "../numbers/labelled-map";
import { say } from "../text";
import { visible } from "../token-text";
import type { View, ViewProps } from "../view";
import { axisLabels } from "./heatmap";

interface Pane {
  panel: MapPanel;
  title: HTMLElement;
  bar: HTMLElement;
}

export class CompareView implements View {
  readonly element = h("div", { class: "panes" });
  private readonly panes: Pane[];
  private props!: ViewProps;
  private numbers!: CompareNumbers;

  constructor() {
    this.panes = [0, 1, 2].map((index) => this.pane(index));
  }

  private pane(index: number): Pane {
    const listener = {
      hover: (cell: HoveredCell | null, event: PointerEvent): void => this.hover(index, cell, event),
      pin: (axis: "row" | "column", place: number): void => this.pin(axis, place),
    };
    const panel: MapPanel = new MapPanel(listener, () => panel.element.parentElement!.clientWidth);
    const title = h("h2");
    const bar = h("div", { class: "legend" });
    this.element.append(h("section", { class: "pane" }, [title, panel.element, bar]));
    return { panel, title, bar };
  }

  show(props: ViewProps): string {
    this.props = props;
    this.numbers = compareNumbers(props.scene, props.state);
    const { first, second, difference: minus, names } = this.numbers;
    const { scale } = props.state;
    const most = Math.max(largest(first.data), largest(second.data));
    // one colour scale for both, or they could not be compared
    const common = (map: Matrix): Float32Array =>
      scale === "linear" ? map.data.map((weight) => (most > 0 ? weight / most : 0)) : shadeWeights(map, scale);
    const largestDifference = minus.data.reduce((largest, weight) => Math.max(largest, Math.abs(weight)), 0);
    const signed = minus.data.map((weight) => (largestDifference > 0 ? 0.5 + weight / largestDifference / 2 : 0.5));
    this.fill(0, names[0], first, common(first), most);
    this.fill(1, names[1], second, common(second), most);
    this.fill(2, say("compare.difference", props.language), minus, signed, largestDifference);
    return this.numbers.caption;
  }

  /** Fill one of the three panes: first map, second map, difference. */
  private fill(index: number, title: string, weights: Matrix, strong: Float32Array, most: number): void {
    const { props, numbers } = this;
    const pane = this.panes[index]!;
    const signed = index === 2;
    pane.title.textContent = title;
    pane.bar.replaceChildren(legend(props, most, signed));
    pane.panel.show(
      {
        weights,
        shades: strong,
        rows: axisLabels(numbers.rows),
        columns: axisLabels(numbers.columns),
        cells: [1, 1],
        colours: signed ? props.colours.differences : props.colours.weights,
        patches: [],
        pinned: this.pinned(),
      },
      title,
    );
  }

  private pinned(): { axis: "row" | "column"; start: number; stop: number } | null {
    const { axis, place } = this.props.state;
    if (place === null) return null;
    const index = labelAt(axis === "row" ? this.numbers.rows : this.numbers.columns, place);
    return { axis, start: index, stop: index + 1 };
  }

  private pin(axis: "row" | "column", index: number): void {
    const place = (axis === "row" ? this.numbers.rows : this.numbers.columns)[index]!.start;
    const { state } = this.props;
    this.props.change({ axis, place: state.axis === axis && state.place === place ? null : place });
  }

  private hover(index: number, at: HoveredCell | null, event: PointerEvent): void {
    this.panes.forEach(({ panel }, other) => other !== index && panel.markCell(at));
    if (!at) return this.props.tooltip.hide();
    const { first, second, difference: minus, rows, columns } = this.numbers;
    const cell = at.row * first.columns + at.column;
    const [one, two, less] = [first, second, minus].map(({ data }) => percent(data[cell]!));
    const values = { row: visible(rows[at.row]!.text), column: visible(columns[at.column]!.text) };
    const weight = `${one} − ${two} = ${less}`;
    this.props.tooltip.show(event, [say("hover.weight", this.props.language, { ...values, weight }), positions(at)]);
  }

  resize(): void {
    for (const { panel } of this.panes) panel.layout();
  }
}
