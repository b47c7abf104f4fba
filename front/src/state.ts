/** What is being looked at: as JSON and as the hash of the address (FORMAT.md, section 6). */

export const CHOICES = {
  view: ["heads", "heatmap", "highlight", "flow", "overlay", "compare"],
  axis: ["row", "column"],
  span: ["layers", "all", "time"],
  depth: ["head", "layer", "all"],
  label: ["read", "produced"],
  unit: ["piece", "word", "sentence"],
  scale: ["linear", "log", "row"],
  language: ["en", "zh"],
  theme: ["light", "dark"],
} as const;

export type ViewKind = (typeof CHOICES.view)[number];
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

/** The trace, site and head that another is compared with. */
export interface Place {
  trace: number;
  site: string | null;
  head: number | null;
}

export interface State {
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
  other: Place | null;
  finding: number | null;
  language: Language | null;
  theme: Theme | null;
}

export const DEFAULT_STATE: State = {
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

type Key = keyof State;
const KEYS = Object.keys(DEFAULT_STATE) as Key[];
const NULLABLE: readonly Key[] = [
  "site", "head", "heads", "place", "label", "threshold", "other", "finding", "language", "theme",
];

export function toHash(state: State, usual: State = DEFAULT_STATE): string {
  const parts: string[] = [];
  for (const key of KEYS) {
    const value = spelled(state[key]);
    const same = value === spelled(usual[key]) && (state[key] === null) === (usual[key] === null);
    if (!same) parts.push(`${key}=${encodeURIComponent(value)}`);
  }
  return "#" + parts.join("&");
}

function spelled(value: State[Key]): string {
  if (value === null) return "";
  if (Array.isArray(value)) return value.join(",");
  if (typeof value === "object") return `${value.trace},${value.head ?? ""},${value.site ?? ""}`;
  return String(value);
}

/** The state that a hash says; what cannot be read stays as usual. */
export function fromHash(text: string, usual: State = DEFAULT_STATE): State {
  const state = { ...usual };
  for (const part of text.replace(/^#/, "").split("&")) {
    const cut = part.indexOf("=");
    const key = (cut < 0 ? part : part.slice(0, cut)) as Key;
    if (!KEYS.includes(key)) continue;
    const value = unescaped(cut < 0 ? "" : part.slice(cut + 1));
    const found = value === null ? undefined : readPart(key, value);
    if (found !== undefined) Object.assign(state, { [key]: found });
  }
  return state;
}

function unescaped(value: string): string | null {
  try {
    return decodeURIComponent(value);
  } catch {
    return null;
  }
}

/** A part of the state; undefined if it cannot be read. */
function readPart(key: Key, value: string): unknown {
  if (key === "hide") return readHidden(value);
  if (value === "") return NULLABLE.includes(key) ? null : undefined;
  if (key in CHOICES) {
    const known: readonly string[] = CHOICES[key as keyof typeof CHOICES];
    return known.includes(value) ? value : undefined;
  }
  if (key === "site") return value;
  if (key === "other") return readOther(value);
  if (key === "heads") return readHeads(value);
  if (key === "threshold") {
    const number = Number(value);
    return number >= 0 && number <= 1 ? number : undefined;
  }
  return readCount(value);
}

function readCount(value: string): number | undefined {
  return /^\s*\d+\s*$/.test(value) ? Number(value) : undefined;
}

function readHidden(value: string): Hidden[] | undefined {
  const parts = value === "" ? [] : value.split(",");
  if (!parts.every((part) => (HIDEABLE as readonly string[]).includes(part))) return undefined;
  return HIDEABLE.filter((each) => parts.includes(each));
}

function readHeads(value: string): number[] | undefined {
  const heads = value.split(",").map(readCount);
  if (heads.some((head) => head === undefined)) return undefined;
  return [...new Set(heads as number[])].sort((one, two) => one - two);
}

function readOther(value: string): Place | undefined {
  const [trace, head, ...site] = value.split(",");
  const index = readCount(trace ?? "");
  const number = head === "" ? null : readCount(head ?? "");
  if (index === undefined || number === undefined || !site.length) return undefined;
  return { trace: index, head: number, site: site.join(",") || null };
}
