/** Bytes that stand in a page as text, two to a character (FORMAT.md, section 4). */

const ESCAPE = 0xe000;
const TURN = 0x8000;

export function fromCharacters(text: string, start: number, length: number, size: number): Uint8Array {
  const units = new Uint16Array((size + 1) >> 1);
  const stop = start + length;
  let filled = 0;
  for (let index = start; index < stop; index++) {
    const unit = text.charCodeAt(index);
    units[filled++] = unit === ESCAPE ? text.charCodeAt(++index) ^ TURN : unit;
  }
  return new Uint8Array(units.buffer, 0, size);
}
