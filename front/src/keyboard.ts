/** The keyboard: arrows change layer and head, single letters change what is done most often. */
import { rowNaming } from "./captions";
import { stepFinding } from "./findings";
import { KINDS } from "./generated/kinds";
import { rowLabels } from "./numbers/labelled-map";
import type { SceneSite } from "./scene";
import { CHOICES, HIDEABLE, type ViewState } from "./state";
import type { ViewProps } from "./view";
import { unpinIfMoved } from "./views/heads";

/** What keys can do besides changing the state. */
export interface KeyActions {
  search(): void;
  help(): void;
  close(): void;
  views(): readonly ViewState["view"][];
}

/** The changes of the state that a key makes; null for a key that means nothing here. */
export function changesForKey(key: string, props: ViewProps, actions: KeyActions): Partial<ViewState> | null {
  const { state } = props;
  switch (key) {
    case "ArrowUp":
      return moveLayer(props, -1);
    case "ArrowDown":
      return moveLayer(props, 1);
    case "ArrowLeft":
      return moveHead(props, -1);
    case "ArrowRight":
      return moveHead(props, 1);
    case "[":
      return moveRow(props, -1);
    case "]":
      return moveRow(props, 1);
    case "n":
      return stepFinding(props, 1);
    case "p":
      return stepFinding(props, -1);
    case "u":
      return { unit: nextOf(CHOICES.unit, state.unit) };
    case "c":
      return { scale: nextOf(CHOICES.scale, state.scale) };
    case "h":
      return { hide: HIDEABLE.filter((name) => (name === "first") !== state.hide.includes(name)) };
    case "s":
      return { hide: HIDEABLE.filter((name) => (name === "special") !== state.hide.includes(name)) };
    case "/":
      actions.search();
      return {};
    case "?":
      actions.help();
      return {};
    case "Escape":
      actions.close();
      return state.place === null ? {} : { place: null };
    default:
      return viewOfKey(key, actions);
  }
}

/** The view that a digit opens, if this scene has something for it. */
function viewOfKey(key: string, actions: KeyActions): Partial<ViewState> | null {
  const kind = KINDS.find((candidate) => candidate.key === key);
  return kind && actions.views().includes(kind.name) ? { view: kind.name } : null;
}

/** The value after this one in the list; the first after the last. */
function nextOf<Value>(values: readonly Value[], value: Value): Value {
  return values[(values.indexOf(value) + 1) % values.length]!;
}

/** The site before or after, with the same head if it has that many. */
function moveLayer(props: ViewProps, step: number): Partial<ViewState> {
  const { sites } = props.scene.trace(props.state.trace);
  const now = props.scene.trace(props.state.trace).site(props.state.site);
  const index = Math.min(sites.length - 1, Math.max(0, sites.indexOf(now) + step));
  const site: SceneSite = sites[index]!;
  const { head } = props.state;
  return { site: site.name, head: head !== null && head < site.heads ? head : null, ...unpinIfMoved(props, site) };
}

/** The head before or after; after the last comes the mean over heads, then the first again. */
function moveHead(props: ViewProps, step: number): Partial<ViewState> {
  const { heads } = props.scene.trace(props.state.trace).site(props.state.site);
  const now = props.state.head ?? heads;
  const next = (now + step + heads + 1) % (heads + 1);
  return { head: next === heads ? null : next };
}

/** Pin the row before or after, counted in the tokens, words or sentences that rows are grouped by. */
function moveRow(props: ViewProps, by: number): Partial<ViewState> {
  const { scene, state } = props;
  const sceneTrace = scene.trace(state.trace);
  const site = sceneTrace.site(state.site);
  if (site.long) return { axis: "row", place: Math.min(site.rows.length - 1, Math.max(0, (state.place ?? -by) + by)) };
  const labels = rowLabels(sceneTrace, site, { ...state, label: rowNaming(site, state) });
  const now = state.axis === "row" && state.place !== null
    ? labels.findIndex(({ start, stop }) => start <= state.place! && state.place! < stop)
    : by > 0 ? -1 : labels.length;
  const next = Math.min(labels.length - 1, Math.max(0, now + by));
  return { axis: "row", place: labels[next]?.start ?? null };
}
