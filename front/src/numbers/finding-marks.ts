/** Which rows and columns the open finding is about, counted in tokens. */
import type { Scene } from "../scene";
import type { DrawingHeader } from "../scene-header";
import type { ViewState } from "../state";
import type { Label } from "./labelled-map";

const NOTHING: DrawingHeader = { view: "heads", site: null, head: null, rows: [], columns: [] };

/** What the open finding marks, if the shown map is the one that it is about; else nothing. */
export function openFindingDrawing(scene: Scene, state: ViewState): DrawingHeader {
  const finding = state.finding === null ? undefined : scene.header.findings?.[state.finding];
  const drawing = finding?.drawing;
  if (!finding || !drawing) return NOTHING;
  const sceneTrace = scene.trace(state.trace);
  const same =
    finding.trace === state.trace &&
    drawing.head === state.head &&
    (drawing.site === null || sceneTrace.site(drawing.site) === sceneTrace.site(state.site));
  return same ? drawing : NOTHING;
}

/** The indices of the labels that group any of these rows or columns. */
export function labelsCovering(labels: Label[], places: number[]): number[] {
  return [...labels.keys()].filter((index) => {
    const { start, stop } = labels[index]!;
    return places.some((place) => start <= place && place < stop);
  });
}
