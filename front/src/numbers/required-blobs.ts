/** The blobs of the maps that a state is drawn from: only these are decoded, so that the first picture comes at once. */
import type { Scene } from "../scene";
import type { ViewState } from "../state";
import { comparedMap } from "./compare";
import { headsDrawn } from "./flow";

export function requiredBlobs(scene: Scene, state: ViewState): number[] {
  const sceneTrace = scene.trace(state.trace);
  const site = sceneTrace.site(state.site);
  switch (state.view) {
    case "heads":
      return [];
    case "highlight":
      if (site.long) return [];
      if (state.depth === "head") return scene.blobsOf(site, state.head);
      if (state.depth === "layer") return scene.blobsOf(site, null);
      return sceneTrace.alike(site).flatMap((other) => scene.blobsOf(other, null));
    case "flow":
      if (site.long) return [];
      if (state.span !== "all") {
        return headsDrawn(site, state).flatMap((head) => scene.blobsOf(site, head));
      }
      return sceneTrace.alike(site).flatMap((other) => scene.blobsOf(other, state.head));
    case "compare": {
      const other = comparedMap(scene, state);
      const otherSite = scene.trace(other.trace).site(other.site);
      if (site.long || otherSite.long) return [];
      return [...scene.blobsOf(site, state.head), ...scene.blobsOf(otherSite, other.head)];
    }
    default:
      return scene.blobsOf(site, state.head);
  }
}
