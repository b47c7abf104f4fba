/** Sentences that say what a picture shows and what was done to its numbers, in two languages. */
import type { Site } from "./scene";
import type { Language, LabelName, State } from "./state";
import { isSentence, say, type Values } from "./text";

/** A key of text.ts and the values to fill in. */
export type Sentence = [key: string, values?: Values];

/** Chinese sentences end in a full-width stop and need no space between them. */
const JOINS: Record<Language, string> = { en: " ", zh: "" };

export function joinSentences(language: Language | null, parts: Sentence[]): string {
  return parts.map(([key, values]) => say(key, language, values)).join(JOINS[language ?? "en"]);
}

/** What a check is called in a badge; one that has no name of its own, as it is. */
export function checkName(language: Language, check: string): string {
  const key = `check.${check}`;
  return isSentence(key) ? say(key, language) : check;
}

/** A weight as it is shown: no digit more than its code can hold. */
export function percent(weight: number): string {
  const size = Math.abs(weight);
  if (size === 0) return "0%";
  const sign = weight < 0 ? "\u2212" : "";
  if (size < 0.001) return `${sign}< 0.1%`;
  return `${sign}${rounded(100 * size, size < 0.01 ? 2 : 1)}%`;
}

/** Digits after the point, halves to even, as Python writes them. */
function rounded(value: number, digits: number): string {
  const factor = 10 ** digits;
  const half = value * factor * 2;
  const isHalf = Number.isInteger(half) && half % 2 === 1 && half / factor / 2 === value;
  if (!isHalf || !isExact(value)) return value.toFixed(digits);
  const below = Math.floor(value * factor);
  return ((below % 2 === 0 ? below : below + 1) / factor).toFixed(digits);
}

/** Whether a number has few binary digits, so that it can lie in the middle at all. */
function isExact(value: number): boolean {
  return Number.isInteger(value * 8);
}

/** Which site and head a picture is of; a head is called by its number in the model. */
export function siteSentence(site: Site, head: number | null): Sentence {
  const single = head === null && site.heads === 1;
  if (site.kind === "aggregate" || single) return ["caption.aggregate", { site: site.name }];
  if (head === null) return ["caption.mean", { site: site.name, heads: site.heads }];
  return ["caption.head", { site: site.name, head: site.number(head) }];
}

/** Whether rows are called by what was read or by what was produced. */
export function rowLabelSource(site: Site, state: State): LabelName {
  return site.produced === null ? "read" : (state.label ?? "produced");
}

/** What was done to the weights of a map before it was coloured. */
export function processingSentences(site: Site, state: State): Sentence[] {
  const mended: Sentence[] = site.header.mended ? [["caption.mended"]] : [];
  if (site.long) {
    const [rows, columns] = site.header.cells;
    return [...mended, ["caption.cells", { rows, columns }]];
  }
  const said: Sentence[] = [...mended, [`caption.rows.${rowLabelSource(site, state)}`]];
  if (state.hide.length) {
    said.push([`caption.hide.${state.hide.length === 1 ? state.hide[0] : "both"}`]);
  }
  if (state.unit !== "piece") said.push([`caption.unit.${state.unit}`]);
  return said;
}

/** How weights became colours. */
export function scaleSentence(state: State, largest: number): Sentence {
  return [`caption.scale.${state.scale}`, { largest: percent(largest) }];
}
