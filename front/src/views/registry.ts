/**
 * The code that draws each kind of view.
 *
 * Names, order, keys and labels of the kinds are registered in Python (src/regard/views/kinds) and written to
 * generated/kinds.ts; this table adds the class that draws each. The compiler refuses a kind that is missing here.
 */
import type { ViewKind } from "../state";
import type { View } from "../view";
import { CompareView } from "./compare";
import { FlowView } from "./flow";
import { HeadsView } from "./heads";
import { HeatmapView } from "./heatmap";
import { HighlightView } from "./highlight";
import { OverlayView } from "./overlay";

const VIEWS: Record<ViewKind, new () => View> = {
  heads: HeadsView,
  heatmap: HeatmapView,
  highlight: HighlightView,
  flow: FlowView,
  overlay: OverlayView,
  compare: CompareView,
};

export function createView(kind: ViewKind): View {
  return new VIEWS[kind]();
}
