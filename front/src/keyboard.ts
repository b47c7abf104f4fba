/** Keys: arrows through layers and heads, and one key for each thing that is often done. */
import { labelOf } from "./captions";
import { stepped } from "./findings";
import type { Look } from "./view";
import { rowLabels } from "./numbers/labelled-map";
import type { Site } from "./scene";
import { CHOICES, HIDDEN, type State } from "./state";
import { stillPinned } from "./views/heads";

export interface Doors {
  search(): void;
  help(): void;
  close(): void;
  views(): readonly State["view"][];
}

/** What a key changes; null if it is none of ours. */
export function pressed(key: string, look: Look, doors: Doors): Partial<State> | null {
  const { state } = look;
  switch (key) {
    case "ArrowUp":
      return layer(look, -1);
    case "ArrowDown":
      return layer(look, 1);
    case "ArrowLeft":
      return head(look, -1);
    case "ArrowRight":
      return head(look, 1);
    case "[":
      return step(look, -1);
    case "]":
      return step(look, 1);
    case "n":
      return stepped(look, 1);
    case "p":
      return stepped(look, -1);
    case "u":
      return { unit: after(CHOICES.unit, state.unit) };
    case "c":
      return { scale: after(CHOICES.scale, state.scale) };
    case "h":
      return { hide: HIDDEN.filter((each) => (each === "first") !== state.hide.includes(each)) };
    case "s":
      return { hide: HIDDEN.filter((each) => (each === "special") !== state.hide.includes(each)) };
    case "/":
      doors.search();
      return {};
    case "?":
      doors.help();
      return {};
    case "Escape":
      doors.close();
      return state.place === null ? {} : { place: null };
    default:
      return view(key, doors);
  }
}

function view(key: string, doors: Doors): Partial<State> | null {
  const found = /^[1-6]$/.test(key) ? CHOICES.view[Number(key) - 1] : undefined;
  return found && doors.views().includes(found) ? { view: found } : null;
}

function after<Value>(values: readonly Value[], value: Value): Value {
  return values[(values.indexOf(value) + 1) % values.length]!;
}

function layer(look: Look, step: number): Partial<State> {
  const { sites } = look.scene.trace(look.state.trace);
  const now = look.scene.trace(look.state.trace).site(look.state.site);
  const index = Math.min(sites.length - 1, Math.max(0, sites.indexOf(now) + step));
  const site: Site = sites[index]!;
  const { head } = look.state;
  return { site: site.name, head: head !== null && head < site.heads ? head : null, ...stillPinned(look, site) };
}

/** Heads in a round, with the mean between the last and the first. */
function head(look: Look, step: number): Partial<State> {
  const { heads } = look.scene.trace(look.state.trace).site(look.state.site);
  const now = look.state.head ?? heads;
  const next = (now + step + heads + 1) % (heads + 1);
  return { head: next === heads ? null : next };
}

/** The next row, by what rows are called now. */
function step(look: Look, by: number): Partial<State> {
  const { scene, state } = look;
  const traced = scene.trace(state.trace);
  const site = traced.site(state.site);
  if (site.long) return { axis: "row", place: Math.min(site.rows.length - 1, Math.max(0, (state.place ?? -by) + by)) };
  const labels = rowLabels(traced, site, { ...state, label: labelOf(site, state) });
  const now = state.axis === "row" && state.place !== null
    ? labels.findIndex(({ start, stop }) => start <= state.place! && state.place! < stop)
    : by > 0 ? -1 : labels.length;
  const next = Math.min(labels.length - 1, Math.max(0, now + by));
  return { axis: "row", place: labels[next]?.start ?? null };
}
