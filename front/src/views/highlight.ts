/** The highlight view: the text, shaded by attention. A click on a token shows the attention of that token. */
import { rowNaming, percent } from "../captions";
import { colourAt, css, isBright } from "../colours";
import { h } from "../dom";
import { legend } from "../legend";
import { openFindingDrawing } from "../numbers/finding-marks";
import { highlightNumbers, type HighlightNumbers } from "../numbers/highlight";
import { columnLabels, rowLabels, type Label } from "../numbers/labelled-map";
import type { SceneSite } from "../scene";
import type { AxisName } from "../state";
import { say } from "../text";
import type { Axis, TokenStream } from "../token-streams";
import { runningText, visible } from "../token-text";
import { topTokens } from "../top-tokens";
import type { View, ViewProps } from "../view";

const STRONGEST = 0.86; // shade behind a word: its letters have to stay legible

export class HighlightView implements View {
  readonly element = h("div", { class: "split" });

  show(props: ViewProps): string {
    const numbers = highlightNumbers(props.scene, props.state);
    const site = props.scene.trace(props.state.trace).site(props.state.site);
    const single = site.rows.equals(site.columns) && rowNaming(site, props.state) === "read";
    const blocks = single
      ? [this.block(props, site, numbers, props.state.axis === "row" ? "column" : "row", true)]
      : [this.block(props, site, numbers, "row", false), this.block(props, site, numbers, "column", false)];
    const most = Math.max(0, ...numbers.words.map((word) => word.weight));
    const list = topTokens(props, say("top.words", props.language), numbers.top);
    const hint = h("p", { class: "hint" }, [say("hint.text", props.language)]);
    const main = h("div", { class: "wide" }, [...blocks, h("div", { class: "legend" }, [legend(props, most)])]);
    this.element.replaceChildren(main, h("aside", { class: "beside" }, [list, hint]));
    return numbers.caption;
  }

  /** The text of the rows or of the columns; the one that receives the attention is shaded. */
  private block(props: ViewProps, site: SceneSite, numbers: HighlightNumbers, side: AxisName, single: boolean): HTMLElement {
    const sceneTrace = props.scene.trace(props.state.trace);
    const { state } = props;
    const labelAxis = rowNaming(site, state) === "produced" ? site.produced! : site.rows;
    const axis = side === "row" ? labelAxis : site.columns;
    const labels = side === "row" ? rowLabels(sceneTrace, site, state) : columnLabels(sceneTrace, site, state);
    const shaded = (state.axis === "row") === (side === "column");
    const pins: AxisName = single ? state.axis : side;
    const places = openFindingDrawing(props.scene, state)[side === "row" ? "rows" : "columns"];
    const words = labels.flatMap((label, index): (Node | string)[] => {
      const stream = sceneTrace.stream(axis);
      const word = this.word(props, { stream, axis, label, places }, pins, shaded ? numbers.words[index]! : null);
      const space = index > 0 && stream.spaced(axis.places[label.start]!);
      return [space ? " " : stream.named ? "\u200b" : " ", word];
    });
    const text = h("p", { class: shaded ? "text shaded" : "text", dir: "auto", lang: "" }, words);
    const title = single ? null : h("h2", {}, [say(side === "row" ? "text.rows" : "text.columns", props.language)]);
    return h("section", {}, [title, text]);
  }

  /** One token or word: shaded, pinned by a click, underlined if it is marked or the open finding is about it. */
  private word(
    props: ViewProps,
    { stream, axis, label, places }: { stream: TokenStream; axis: Axis; label: Label; places: number[] },
    pins: AxisName,
    shade: { weight: number; shade: number } | null,
  ): HTMLElement {
    const { state } = props;
    const findingText = stream.text(axis.places[label.start]!, axis.places[label.stop - 1]! + 1);
    const pinned = state.axis === pins && state.place !== null && label.start <= state.place && state.place < label.stop;
    const stop = axis.places[label.stop - 1]! + 1;
    const marked = stream.hasMark(axis.places[label.start]!, stop) || places.some((place) => label.start <= place && place < label.stop);
    const classes = ["word", label.special && "special", pinned && "pinned", marked && "marked"].filter(Boolean).join(" ");
    const word = h("span", { class: classes, role: "button", tabindex: -1, "aria-pressed": String(pinned) }, [
      runningText(findingText) || visible(label.text),
    ]);
    const pin = (): void => props.change({ axis: pins, place: pinned ? null : label.start });
    word.addEventListener("click", pin);
    if (shade) {
      const colour = colourAt(props.colours.weights, STRONGEST * shade.shade);
      word.style.background = css(colour);
      word.style.color = isBright(colour) ? "#16191d" : "#fff";
      const tooltipText = `${visible(label.text)}: ${percent(shade.weight)}`;
      word.addEventListener("pointermove", (event) => props.tooltip.show(event, [tooltipText]));
      word.addEventListener("pointerleave", () => props.tooltip.hide());
    }
    return word;
  }
}
