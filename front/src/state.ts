/**
 * The state: everything that decides which picture is shown, such as the view, the site, the head and what is hidden.
 *
 * It travels as JSON (header of a page, widget of a notebook) and as the hash of the page's address, so that a link opens
 * the same picture: { view: "heatmap", site: "h.5", head: 3 } is `#view=heatmap&site=h.5&head=3`. FORMAT.md, section 6,
 * lists the keys; `regard.views.state` is its twin in Python.
 */
import { KINDS } from "./generated/kinds";

export const CHOICES = {
  view: KINDS.map(({ name }) => name),
  axis: ["row", "column"],
  span: ["layers", "all", "time"],
  depth: ["head", "layer", "all"],
  label: ["read", "produced"],
  unit: ["piece", "word", "sentence"],
  scale: ["linear", "log", "row"],
  language: ["en", "zh"],
  theme: ["light", "dark"],
} as const;

export type ViewKind = (typeof KINDS)[number]["name"];
export type AxisName = (typeof CHOICES.axis)[number];
export type Span = (typeof CHOICES.span)[number];
export type Depth = (typeof CHOICES.depth)[number];
export type LabelName = (typeof CHOICES.label)[number];
export type Unit = (typeof CHOICES.unit)[number];
export type Scale = (typeof CHOICES.scale)[number];
export type Language = (typeof CHOICES.language)[number];
export type Theme = (typeof CHOICES.theme)[number];
export type Hidden = "first" | "special";

export const HIDEABLE: readonly Hidden[] = ["first", "special"];

/** One map: the trace, site and head that another map is compared with. */
export interface MapReference {
  trace: number;
  site: string | null;
  head: number | null;
}

export interface ViewState {
  view: ViewKind;
  trace: number;
  site: string | null;
  head: number | null;
  heads: number[] | null;
  axis: AxisName;
  place: number | null;
  span: Span;
  depth: Depth;
  label: LabelName | null;
  unit: Unit;
  hide: Hidden[];
  scale: Scale;
  threshold: number | null;
  other: MapReference | null;
  finding: number | null;
  language: Language | null;
  theme: Theme | null;
}

export const DEFAULT_STATE: ViewState = {
  view: "heads",
  trace: 0,
  site: null,
  head: null,
  heads: null,
  axis: "row",
  place: null,
  span: "layers",
  depth: "head",
  label: null,
  unit: "piece",
  hide: [],
  scale: "linear",
  threshold: null,
  other: null,
  finding: null,
  language: null,
  theme: null,
};

type Key = keyof ViewState;
const KEYS = Object.keys(DEFAULT_STATE) as Key[];
const NULLABLE: readonly Key[] = [
  "site", "head", "heads", "place", "label", "threshold", "other", "finding", "language", "theme",
];

/** The hash of a state: its values that differ from those of `initial`. */
export function toHash(state: ViewState, initial: ViewState = DEFAULT_STATE): string {
  const parts: string[] = [];
  for (const key of KEYS) {
    const value = hashValue(state[key]);
    const same = value === hashValue(initial[key]) && (state[key] === null) === (initial[key] === null);
    if (!same) parts.push(`${key}=${encodeURIComponent(value)}`);
  }
  return "#" + parts.join("&");
}

/** A value as it stands in the hash, before percent-encoding; null and an empty list are empty. */
function hashValue(value: ViewState[Key]): string {
  if (value === null) return "";
  if (Array.isArray(value)) return value.join(",");
  if (typeof value === "object") return `${value.trace},${value.head ?? ""},${value.site ?? ""}`;
  return String(value);
}

/** The state of a hash; values that are missing or cannot be read stay as in `initial`. */
export function fromHash(text: string, initial: ViewState = DEFAULT_STATE): ViewState {
  const state = { ...initial };
  for (const part of text.replace(/^#/, "").split("&")) {
    const cut = part.indexOf("=");
    const key = (cut < 0 ? part : part.slice(0, cut)) as Key;
    if (!KEYS.includes(key)) continue;
    const value = decodeHashValue(cut < 0 ? "" : part.slice(cut + 1));
    const parsed = value === null ? undefined : parseValue(key, value);
    if (parsed !== undefined) Object.assign(state, { [key]: parsed });
  }
  return state;
}

/** The text without percent-encoding; null if the encoding is broken. */
function decodeHashValue(value: string): string | null {
  try {
    return decodeURIComponent(value);
  } catch {
    return null;
  }
}

/** The value of one key of the state; undefined if it cannot be read. */
function parseValue(key: Key, value: string): unknown {
  if (key === "hide") return parseHidden(value);
  if (value === "") return NULLABLE.includes(key) ? null : undefined;
  if (key in CHOICES) {
    const known: readonly string[] = CHOICES[key as keyof typeof CHOICES];
    return known.includes(value) ? value : undefined;
  }
  if (key === "site") return value;
  if (key === "other") return parseOther(value);
  if (key === "heads") return parseHeads(value);
  if (key === "threshold") {
    const number = Number(value);
    return number >= 0 && number <= 1 ? number : undefined;
  }
  return parseCount(value);
}

function parseCount(value: string): number | undefined {
  return /^\s*\d+\s*$/.test(value) ? Number(value) : undefined;
}

function parseHidden(value: string): Hidden[] | undefined {
  const parts = value === "" ? [] : value.split(",");
  if (!parts.every((part) => (HIDEABLE as readonly string[]).includes(part))) return undefined;
  return HIDEABLE.filter((name) => parts.includes(name));
}

function parseHeads(value: string): number[] | undefined {
  const heads = value.split(",").map(parseCount);
  if (heads.some((head) => head === undefined)) return undefined;
  return [...new Set(heads as number[])].sort((one, two) => one - two);
}

/** "trace,head,site", where a site name may hold commas itself. */
function parseOther(value: string): MapReference | undefined {
  const [trace, head, ...site] = value.split(",");
  const index = parseCount(trace ?? "");
  const number = head === "" ? null : parseCount(head ?? "");
  if (index === undefined || number === undefined || !site.length) return undefined;
  return { trace: index, head: number, site: site.join(",") || null };
}
