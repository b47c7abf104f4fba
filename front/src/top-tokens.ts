/** A list of tokens with their weights as bars, the largest first. */
import { percent } from "./captions";
import { colourAt, css } from "./colours";
import { h } from "./dom";
import { visible } from "./token-text";
import type { ViewProps } from "./view";

export function topTokens(props: ViewProps, title: string, top: [string, number][]): HTMLElement {
  const most = top[0]?.[1] || 1;
  const items = top.map(([text, weight]) => {
    const bar = h("span", { class: "bar" });
    bar.style.width = `${(100 * weight) / most}%`;
    bar.style.background = css(colourAt(props.colours.weights, 0.35 + (0.4 * weight) / most));
    return h("li", {}, [
      h("bdi", { class: "word", title: visible(text) }, [visible(text)]),
      h("span", { class: "weight" }, [percent(weight)]),
      h("span", { class: "track", "aria-hidden": "true" }, [bar]),
    ]);
  });
  return h("section", { class: "top" }, [h("h2", {}, [title]), h("ol", {}, items)]);
}
