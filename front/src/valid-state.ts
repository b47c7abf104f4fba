/** States that a scene can show: an address may name a site, head or token that is not in it. */
import { KINDS } from "./generated/kinds";
import type { Scene } from "./scene";
import type { ViewState, ViewKind } from "./state";

/** The kinds of view that this scene has data for. */
export function availableViews(scene: Scene): readonly ViewKind[] {
  const hasGrid = scene.traces.some((sceneTrace) => sceneTrace.sites.some((site) => sceneTrace.stream(site.columns).grid));
  return KINDS.filter(({ needsImage }) => !needsImage || hasGrid).map(({ name }) => name);
}

/** The state with everything replaced by its default that this scene does not have. */
export function validState(scene: Scene, state: ViewState): ViewState {
  const checked = { ...state };
  if (checked.trace >= scene.traces.length) checked.trace = 0;
  if (!availableViews(scene).includes(checked.view)) checked.view = "heatmap";
  if (checked.finding !== null && checked.finding >= (scene.header.findings?.length ?? 0)) checked.finding = null;
  const sceneTrace = scene.trace(checked.trace);
  if (checked.site !== null && !sceneTrace.sites.some(({ name }) => name === checked.site)) checked.site = null;
  if (checked.view === "overlay" && !sceneTrace.stream(sceneTrace.site(checked.site).columns).grid) {
    checked.site = sceneTrace.sites.find((site) => sceneTrace.stream(site.columns).grid)?.name ?? checked.site;
  }
  const site = sceneTrace.site(checked.site);
  if (checked.head !== null && checked.head >= site.heads) checked.head = null;
  if (checked.heads?.some((head) => head >= site.heads)) checked.heads = null;
  const length = checked.axis === "row" ? site.rows.length : site.columns.length;
  if (checked.place !== null && checked.place >= length) checked.place = null;
  return { ...checked, other: validOther(scene, checked) };
}

/** The map to compare with, null if the scene does not have it. */
function validOther(scene: Scene, { other }: ViewState): ViewState["other"] {
  const sceneTrace = other && scene.traces[other.trace];
  if (!sceneTrace) return null;
  const known = other.site === null || sceneTrace.sites.some(({ name }) => name === other.site);
  const site = sceneTrace.site(other.site);
  return known && (other.head === null || other.head < site.heads) ? other : null;
}
