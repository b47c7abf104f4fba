/** The text of tokens on screen: invisible characters are spelled out, long texts are cut to the room that they have. */

export const FONT =
  'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", ' +
  '"PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "Noto Sans CJK SC", "WenQuanYi Micro Hei", ' +
  "sans-serif";

// control characters, direction marks, line separators, lone surrogates: invisible, or harmful to the text around them
const INVISIBLE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\p{Cs}/gu;
const SYMBOLS: Record<string, string> = { "\n": "↵", "\r": "␍", "\t": "⇥" };

function symbolFor(character: string): string {
  const code = character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
  return SYMBOLS[character] ?? `U+${code}`;
}

/** A token on one line: spaces at its ends and invisible characters are shown as symbols. */
export function visible(text: string): string {
  const spelled = text.replace(INVISIBLE, symbolFor);
  if (spelled === "") return "∅";
  return spelled.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));
}

/** A token within running text: invisible characters as symbols, but line breaks stay. */
export function runningText(text: string): string {
  return text.replace(INVISIBLE, (character) => (character === "\n" ? "\n" : symbolFor(character)));
}

/** Text in a bidirectional isolate, so that right-to-left text does not reorder what stands beside it. */
export function isolated(text: string): string {
  return `\u2068${text}\u2069`;
}

// measuring text is slow, and the same tokens are measured at each drawing
const ruler = document.createElement("canvas").getContext("2d")!;
const widths = new Map<string, number>();

/** The width of a text in pixels. */
export function width(text: string, font: string): number {
  const key = `${font}\n${text}`;
  let measured = widths.get(key);
  if (measured === undefined) {
    ruler.font = font;
    measured = ruler.measureText(text).width;
    if (widths.size > 50_000) widths.clear();
    widths.set(key, measured);
  }
  return measured;
}

/** The text, or as much of its beginning as fits, with an ellipsis. */
export function truncate(text: string, font: string, room: number): string {
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
