/** Gets blobs out of a page: each is a piece of the text of a script element, available once that element is parsed. */
import type { Blobs } from "../scene";
import { fromCharacters } from "./utf16";

const WAIT = 12; // milliseconds between checks of a page that is still being parsed
const MAX_TEXTS = 3; // elements whose text is kept: reading it again is slow, keeping all would double the memory

/** `places` gives part, first character and number of characters of each blob, `sizes` its bytes. */
export function pageBlobs(places: [number, number, number][], sizes: number[]): Blobs {
  const texts = new Map<number, string>();
  const textOf = (part: number, element: Element): string => {
    const text = texts.get(part) ?? element.textContent ?? "";
    texts.delete(part);
    texts.set(part, text);
    for (const old of texts.keys()) if (texts.size > MAX_TEXTS && old !== 0) texts.delete(old);
    return text;
  };
  return (blob) => {
    const [part, start, length] = places[blob]!;
    const cut = (element: Element): Uint8Array =>
      fromCharacters(textOf(part, element), start, length, sizes[blob]!);
    const element = parsedElement(`regard-part-${part}`);
    return element ? cut(element) : waitForElement(`regard-part-${part}`).then(cut);
  };
}

/** The element of a part, if it is parsed to its end. */
function parsedElement(id: string): Element | null {
  const element = document.getElementById(id);
  return element && (element.nextElementSibling || document.readyState !== "loading") ? element : null;
}

async function waitForElement(id: string): Promise<Element> {
  for (;;) {
    const element = parsedElement(id);
    if (element) return element;
    await new Promise((resolve) => setTimeout(resolve, WAIT));
  }
}
