/** The colour bar below a picture, with the weights at its ends. */
import { percent } from "./captions";
import { h } from "./dom";
import { say } from "./text";
import type { ViewProps } from "./view";

/** A colour bar from 0 to `largest`, or from -largest to largest if `signed`; `own` replaces the usual colours. */
export function legend(props: ViewProps, largest: number, signed = false, own?: Uint32Array): HTMLElement {
  const canvas = h("canvas", { width: 257, height: 1, "aria-hidden": "true" });
  const image = new ImageData(257, 1);
  const map = own ?? (signed ? props.colours.differences : props.colours.weights);
  new Uint32Array(image.data.buffer).set(map);
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  const [from, to] = ends(props, largest, signed);
  return h("div", { class: "scale" }, [h("span", {}, [from]), canvas, h("span", {}, [to])]);
}

function ends(props: ViewProps, largest: number, signed: boolean): [string, string] {
  if (signed) return [percent(-largest), percent(largest)];
  if (props.state.scale === "log") return ["0.001%", "100%"];
  if (props.state.scale === "row") return ["0%", say("scale.most", props.language)];
  return ["0%", percent(largest)];
}
