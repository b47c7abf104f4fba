/** Captions: the sentences that say what a picture shows and what was done to its numbers. */
import type { SceneSite } from "./scene";
import type { Language, LabelName, ViewState } from "./state";
import { isSentence, say, type Values } from "./text";

/** A key of text.ts and the values to fill in. */
export type Sentence = [key: string, values?: Values];

/** Chinese sentences end in a full-width stop and need no space between them. */
const JOINS: Record<Language, string> = { en: " ", zh: "" };

export function joinSentences(language: Language | null, parts: Sentence[]): string {
  return parts.map(([key, values]) => say(key, language, values)).join(JOINS[language ?? "en"]);
}

/** The short name of a check in a badge; a check of the user's own has none, and is shown as it is. */
export function checkLabel(language: Language, check: string): string {
  const key = `check.${check}`;
  return isSentence(key) ? say(key, language) : check;
}

/** A weight as text, with no more digits than the code of a blob preserves; smaller ones than 0.1% only say so. */
export function percent(weight: number): string {
  const size = Math.abs(weight);
  if (size === 0) return "0%";
  const sign = weight < 0 ? "\u2212" : "";
  if (size < 0.001) return `${sign}< 0.1%`;
  return `${sign}${roundHalfEven(100 * size, size < 0.01 ? 2 : 1)}%`;
}

/** A number with some digits after the point. Halves are rounded to even, as Python does and toFixed does not. */
function roundHalfEven(value: number, digits: number): string {
  const factor = 10 ** digits;
  const half = value * factor * 2;
  const isHalf = Number.isInteger(half) && half % 2 === 1 && half / factor / 2 === value;
  if (!isHalf || !isExact(value)) return value.toFixed(digits);
  const below = Math.floor(value * factor);
  return ((below % 2 === 0 ? below : below + 1) / factor).toFixed(digits);
}

/** Whether a number is a multiple of 1/8: only then can it lie exactly between two decimals of one digit. */
function isExact(value: number): boolean {
  return Number.isInteger(value * 8);
}

/** The sentence that names the site and head of a map; a head has its number in the model, which may differ from its index. */
export function siteSentence(site: SceneSite, head: number | null): Sentence {
  const single = head === null && site.heads === 1;
  if (site.kind === "aggregate" || single) return ["caption.aggregate", { site: site.name }];
  if (head === null) return ["caption.mean", { site: site.name, heads: site.heads }];
  return ["caption.head", { site: site.name, head: site.number(head) }];
}

/** Whether rows are labelled with input or output tokens: as the reader chose, else with output tokens where they are known. */
export function rowNaming(site: SceneSite, state: ViewState): LabelName {
  return site.produced === null ? "read" : (state.label ?? "produced");
}

/** Sentences that say what was done to the weights: cells, labels of rows, hidden tokens, grouping. */
export function processingSentences(site: SceneSite, state: ViewState): Sentence[] {
  const repaired: Sentence[] = site.header.mended ? [["caption.mended"]] : [];
  if (site.long) {
    const [rows, columns] = site.header.cells;
    return [...repaired, ["caption.cells", { rows, columns }]];
  }
  const sentences: Sentence[] = [...repaired, [`caption.rows.${rowNaming(site, state)}`]];
  if (state.hide.length) {
    sentences.push([`caption.hide.${state.hide.length === 1 ? state.hide[0] : "both"}`]);
  }
  if (state.unit !== "piece") sentences.push([`caption.unit.${state.unit}`]);
  return sentences;
}

/** The sentence that explains the colour scale. */
export function scaleSentence(state: ViewState, largest: number): Sentence {
  return [`caption.scale.${state.scale}`, { largest: percent(largest) }];
}
