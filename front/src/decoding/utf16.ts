/**
 * Bytes from text: a page holds two bytes in each UTF-16 character (FORMAT.md, section 4).
 *
 * Characters that HTML would change or end at are escaped: U+E000, then the character with its highest bit turned.
 */

const ESCAPE = 0xe000;
const HIGHEST_BIT = 0x8000;

/** `size` bytes from `length` characters of a text. */
export function fromCharacters(text: string, start: number, length: number, size: number): Uint8Array {
  const units = new Uint16Array((size + 1) >> 1);
  const stop = start + length;
  let filled = 0;
  for (let index = start; index < stop; index++) {
    const unit = text.charCodeAt(index);
    units[filled++] = unit === ESCAPE ? text.charCodeAt(++index) ^ HIGHEST_BIT : unit;
  }
  return new Uint8Array(units.buffer, 0, size);
}
