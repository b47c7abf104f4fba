/** What the colours mean. */
import { percent } from "./captions";
import { h } from "./dom";
import type { Look } from "./view";
import { say } from "./text";

export function legend(look: Look, largest: number, signed = false, own?: Uint32Array): HTMLElement {
  const canvas = h("canvas", { width: 257, height: 1, "aria-hidden": "true" });
  const image = new ImageData(257, 1);
  const map = own ?? (signed ? look.colours.differences : look.colours.weights);
  new Uint32Array(image.data.buffer).set(map);
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  const [from, to] = ends(look, largest, signed);
  return h("div", { class: "scale" }, [h("span", {}, [from]), canvas, h("span", {}, [to])]);
}

function ends(look: Look, largest: number, signed: boolean): [string, string] {
  if (signed) return [percent(-largest), percent(largest)];
  if (look.state.scale === "log") return ["0.001%", "100%"];
  if (look.state.scale === "row") return ["0%", say("scale.most", look.language)];
  return ["0%", percent(largest)];
}
