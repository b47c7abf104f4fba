/** Tokens as they can be seen: white space and marks without a shape are spelled out. */

export const FONT =
  'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", ' +
  '"PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "Noto Sans CJK SC", "WenQuanYi Micro Hei", ' +
  "sans-serif";

// control characters, marks of direction, separators of lines, halves of pairs
const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\p{Cs}/gu;
const SIGNS: Record<string, string> = { "\n": "↵", "\r": "␍", "\t": "⇥" };

function sign(character: string): string {
  const code = character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
  return SIGNS[character] ?? `U+${code}`;
}

/** A token on one line. */
export function visible(text: string): string {
  const seen = text.replace(UNSEEN, sign);
  if (seen === "") return "∅";
  return seen.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));
}

/** A part of running text: lines still break. */
export function running(text: string): string {
  return text.replace(UNSEEN, (character) => (character === "\n" ? "\n" : sign(character)));
}

/** Text that its own direction does not carry out of its place. */
export function isolated(text: string): string {
  return `\u2068${text}\u2069`;
}

const ruler = document.createElement("canvas").getContext("2d")!;
const widths = new Map<string, number>();

export function width(text: string, font: string): number {
  const key = `${font}\n${text}`;
  let found = widths.get(key);
  if (found === undefined) {
    ruler.font = font;
    found = ruler.measureText(text).width;
    if (widths.size > 50_000) widths.clear();
    widths.set(key, found);
  }
  return found;
}

/** The text, or as much of its beginning as fits. */
export function fitted(text: string, font: string, room: number): string {
  if (width(text, font) <= room) return text;
  const characters = [...text];
  let [low, high] = [0, characters.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (width(characters.slice(0, middle).join("") + "…", font) <= room) low = middle;
    else high = middle - 1;
  }
  return characters.slice(0, low).join("") + "…";
}
