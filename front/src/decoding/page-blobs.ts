/** The bytes of a page: each blob is cut out of the text of its part, once that has been read. */
import { fromCharacters } from "./utf16";
import type { Blobs } from "../scene";

const WAIT = 12; // milliseconds between looks at a page that is still being read
const KEPT = 3; // parts whose text is kept

export function pageBlobs(places: [number, number, number][], sizes: number[]): Blobs {
  const texts = new Map<number, string>();
  const textOf = (part: number, element: Element): string => {
    const text = texts.get(part) ?? element.textContent ?? "";
    texts.delete(part);
    texts.set(part, text);
    for (const old of texts.keys()) if (texts.size > KEPT && old !== 0) texts.delete(old);
    return text;
  };
  return (blob) => {
    const [part, start, length] = places[blob]!;
    const cut = (element: Element): Uint8Array =>
      fromCharacters(textOf(part, element), start, length, sizes[blob]!);
    const there = whole(`regard-part-${part}`);
    return there ? cut(there) : later(`regard-part-${part}`).then(cut);
  };
}

/** The element of a part, if all of its text is there. */
function whole(id: string): Element | null {
  const element = document.getElementById(id);
  return element && (element.nextElementSibling || document.readyState !== "loading") ? element : null;
}

async function later(id: string): Promise<Element> {
  for (;;) {
    const element = whole(id);
    if (element) return element;
    await new Promise((resolve) => setTimeout(resolve, WAIT));
  }
}
