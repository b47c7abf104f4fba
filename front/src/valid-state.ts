/** States that a scene can show: an address may ask for what is not there. */
import type { Scene } from "./scene";
import { KINDS } from "./generated/kinds";
import type { State } from "./state";

/** The views that a scene has something for. */
export function views(scene: Scene): readonly State["view"][] {
  const hasGrid = scene.traces.some((sceneTrace) => sceneTrace.sites.some((site) => sceneTrace.stream(site.columns).grid));
  return KINDS.filter(({ needsImage }) => !needsImage || hasGrid).map(({ name }) => name);
}

export function valid(scene: Scene, state: State): State {
  const found = { ...state };
  if (found.trace >= scene.traces.length) found.trace = 0;
  if (!views(scene).includes(found.view)) found.view = "heatmap";
  if (found.finding !== null && found.finding >= (scene.header.findings?.length ?? 0)) found.finding = null;
  const sceneTrace = scene.trace(found.trace);
  if (found.site !== null && !sceneTrace.sites.some(({ name }) => name === found.site)) found.site = null;
  if (found.view === "overlay" && !sceneTrace.stream(sceneTrace.site(found.site).columns).grid) {
    found.site = sceneTrace.sites.find((site) => sceneTrace.stream(site.columns).grid)?.name ?? found.site;
  }
  const site = sceneTrace.site(found.site);
  if (found.head !== null && found.head >= site.heads) found.head = null;
  if (found.heads?.some((head) => head >= site.heads)) found.heads = null;
  const length = found.axis === "row" ? site.rows.length : site.columns.length;
  if (found.place !== null && found.place >= length) found.place = null;
  return { ...found, other: validOther(scene, found) };
}

function validOther(scene: Scene, { other }: State): State["other"] {
  const sceneTrace = other && scene.traces[other.trace];
  if (!sceneTrace) return null;
  const known = other.site === null || sceneTrace.sites.some(({ name }) => name === other.site);
  const site = sceneTrace.site(other.site);
  return known && (other.head === null || other.head < site.heads) ? other : null;
}
