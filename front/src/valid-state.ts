/** States that a scene can show: an address may ask for what is not there. */
import type { Scene } from "./scene";
import { CHOICES, type State } from "./state";

/** The views that a scene has something for. */
export function views(scene: Scene): readonly State["view"][] {
  const hasGrid = scene.traces.some((traced) => traced.sites.some((site) => traced.stream(site.columns).grid));
  return CHOICES.view.filter((view) => view !== "overlay" || hasGrid);
}

export function valid(scene: Scene, state: State): State {
  const found = { ...state };
  if (found.trace >= scene.traces.length) found.trace = 0;
  if (!views(scene).includes(found.view)) found.view = "heatmap";
  if (found.finding !== null && found.finding >= (scene.header.findings?.length ?? 0)) found.finding = null;
  const traced = scene.trace(found.trace);
  if (found.site !== null && !traced.sites.some(({ name }) => name === found.site)) found.site = null;
  if (found.view === "overlay" && !traced.stream(traced.site(found.site).columns).grid) {
    found.site = traced.sites.find((site) => traced.stream(site.columns).grid)?.name ?? found.site;
  }
  const site = traced.site(found.site);
  if (found.head !== null && found.head >= site.heads) found.head = null;
  if (found.heads?.some((head) => head >= site.heads)) found.heads = null;
  const length = found.axis === "row" ? site.rows.length : site.columns.length;
  if (found.place !== null && found.place >= length) found.place = null;
  return { ...found, other: validOther(scene, found) };
}

function validOther(scene: Scene, { other }: State): State["other"] {
  const traced = other && scene.traces[other.trace];
  if (!traced) return null;
  const known = other.site === null || traced.sites.some(({ name }) => name === other.site);
  const site = traced.site(other.site);
  return known && (other.head === null || other.head < site.heads) ? other : null;
}
