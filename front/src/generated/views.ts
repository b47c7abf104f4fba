/** The class that draws each kind. Written by tools/write_front_data.py, not by hand. */
import { HeadsView } from "../views/heads";
import { HeatmapView } from "../views/heatmap";
import { HighlightView } from "../views/highlight";
import { FlowView } from "../views/flow";
import { OverlayView } from "../views/overlay";
import { CompareView } from "../views/compare";

export const VIEWS = {
  heads: HeadsView,
  heatmap: HeatmapView,
  highlight: HighlightView,
  flow: FlowView,
  overlay: OverlayView,
  compare: CompareView,
};
