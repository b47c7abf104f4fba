/** The maps that the picture of a state is drawn from, so that no other is decoded. */
import type { Scene } from "../scene";
import type { State } from "../state";
import { otherPlace } from "./compare";
import { drawnHeads } from "./flow";

export function needed(scene: Scene, state: State): number[] {
  const traced = scene.trace(state.trace);
  const site = traced.site(state.site);
  switch (state.view) {
    case "heads":
      return [];
    case "highlight":
      if (site.long) return [];
      if (state.depth === "head") return scene.blobsOf(site, state.head);
      if (state.depth === "layer") return scene.blobsOf(site, null);
      return traced.alike(site).flatMap((each) => scene.blobsOf(each, null));
    case "flow":
      if (site.long) return [];
      if (state.span !== "all") {
        return drawnHeads(site, state).flatMap((head) => scene.blobsOf(site, head));
      }
      return traced.alike(site).flatMap((each) => scene.blobsOf(each, state.head));
    case "compare": {
      const other = otherPlace(scene, state);
      const its = scene.trace(other.trace).site(other.site);
      if (site.long || its.long) return [];
      return [...scene.blobsOf(site, state.head), ...scene.blobsOf(its, other.head)];
    }
    default:
      return scene.blobsOf(site, state.head);
  }
}
