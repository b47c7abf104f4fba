/** The text itself, shaded by how much was looked at; click a word to see its sources. */
import { labelOf, percent } from "../captions";
import { colourAt, css, isBright } from "../colours";
import { h } from "../dom";
import { running, visible } from "../token-text";
import { legend } from "../legend";
import type { Drawing, Look } from "../view";
import { highlights, type Shades } from "../numbers/highlight";
import { drawingOf } from "../numbers/finding-marks";
import { columnLabels, rowLabels, type Label } from "../numbers/labelled-map";
import type { Site } from "../scene";
import type { AxisName } from "../state";
import type { Axis, Stream } from "../token-streams";
import { say } from "../text";
import { topList } from "../top-tokens";

const SOFT = 0.86; // the strongest shade behind a word, so that it is still read

export class TextView implements Drawing {
  readonly element = h("div", { class: "split" });

  show(look: Look): string {
    const found = highlights(look.scene, look.state);
    const site = look.scene.trace(look.state.trace).site(look.state.site);
    const single = site.rows.equals(site.columns) && labelOf(site, look.state) === "read";
    const blocks = single
      ? [this.block(look, site, found, look.state.axis === "row" ? "column" : "row", true)]
      : [this.block(look, site, found, "row", false), this.block(look, site, found, "column", false)];
    const most = Math.max(0, ...found.words.map((word) => word.weight));
    const list = topList(look, say("top.words", look.language), found.top);
    const hint = h("p", { class: "hint" }, [say("hint.text", look.language)]);
    const main = h("div", { class: "wide" }, [...blocks, h("div", { class: "legend" }, [legend(look, most)])]);
    this.element.replaceChildren(main, h("aside", { class: "beside" }, [list, hint]));
    return found.caption;
  }

  /** The text of the rows or of the columns; the one that is looked at is shaded. */
  private block(look: Look, site: Site, found: Shades, side: AxisName, single: boolean): HTMLElement {
    const traced = look.scene.trace(look.state.trace);
    const { state } = look;
    const called = labelOf(site, state) === "produced" ? site.produced! : site.rows;
    const axis = side === "row" ? called : site.columns;
    const labels = side === "row" ? rowLabels(traced, site, state) : columnLabels(traced, site, state);
    const shaded = (state.axis === "row") === (side === "column");
    const pins: AxisName = single ? state.axis : side;
    const places = drawingOf(look.scene, state)[side === "row" ? "rows" : "columns"];
    const words = labels.flatMap((label, index): (Node | string)[] => {
      const stream = traced.stream(axis);
      const word = this.word(look, { stream, axis, label, places }, pins, shaded ? found.words[index]! : null);
      const space = index > 0 && stream.spaced(axis.places[label.start]!);
      return [space ? " " : stream.named ? "\u200b" : " ", word];
    });
    const text = h("p", { class: shaded ? "text shaded" : "text", dir: "auto", lang: "" }, words);
    const title = single ? null : h("h2", {}, [say(side === "row" ? "text.rows" : "text.columns", look.language)]);
    return h("section", {}, [title, text]);
  }

  private word(
    look: Look,
    { stream, axis, label, places }: { stream: Stream; axis: Axis; label: Label; places: number[] },
    pins: AxisName,
    shade: { weight: number; shade: number } | null,
  ): HTMLElement {
    const { state } = look;
    const spoken = stream.text(axis.places[label.start]!, axis.places[label.stop - 1]! + 1);
    const pinned = state.axis === pins && state.place !== null && label.start <= state.place && state.place < label.stop;
    const marked = places.some((place) => label.start <= place && place < label.stop);
    const classes = ["word", label.special && "special", pinned && "pinned", marked && "marked"].filter(Boolean).join(" ");
    const word = h("span", { class: classes, role: "button", tabindex: -1, "aria-pressed": String(pinned) }, [
      running(spoken) || visible(label.text),
    ]);
    const pin = (): void => look.change({ axis: pins, place: pinned ? null : label.start });
    word.addEventListener("click", pin);
    if (shade) {
      const colour = colourAt(look.colours.weights, SOFT * shade.shade);
      word.style.background = css(colour);
      word.style.color = isBright(colour) ? "#16191d" : "#fff";
      const told = `${visible(label.text)}: ${percent(shade.weight)}`;
      word.addEventListener("pointermove", (event) => look.tip.show(event, [told]));
      word.addEventListener("pointerleave", () => look.tip.hide());
    }
    return word;
  }
}
