/** Where the front end begins: in a page by itself, in a notebook or the app by a call. */
import { App, type Header, type Options } from "./app";
import type { RequestWindow } from "./view";
import { pageBlobs } from "./decoding/page-blobs";
import type { Blobs } from "./scene";
import type { State } from "./state";

/** Draw a scene into an element; the blobs stand one after the other, or are asked for one by one. */
export function mount(element: HTMLElement, header: Header, blobs: Uint8Array | Blobs, options: Options = {}): App {
  if (typeof blobs === "function") return new App(element, header, blobs, options);
  const starts = [0];
  for (const size of header.scene.blobs) starts.push(starts.at(-1)! + size);
  return new App(element, header, (blob) => blobs.slice(starts[blob], starts[blob + 1]), options);
}

interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  send(content: unknown): void;
  on(event: string, handler: (content: unknown, buffers: DataView[]) => void): void;
}

interface Answer {
  regard?: string;
  id?: number;
  error?: string;
}

/** Questions that a notebook's Python answers (FORMAT.md, section 10). */
function asking(model: Model): RequestWindow {
  let last = 0;
  const waiting = new Map<number, { kept: (bytes: Uint8Array) => void; failed: (error: Error) => void }>();
  model.on("msg:custom", (content, buffers) => {
    const { regard, id, error } = content as Answer;
    const asked = regard === "window" ? waiting.get(id ?? -1) : undefined;
    if (!asked) return;
    waiting.delete(id!);
    const view = buffers[0];
    if (error !== undefined || !view) asked.failed(new Error(error));
    else asked.kept(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
  });
  return (window) =>
    new Promise((kept, failed) => {
      waiting.set(++last, { kept, failed });
      model.send({ regard: "window", id: last, ...window });
    });
}

/** A notebook's widget: `header` is JSON, `blobs` are bytes, and `state` goes both ways. */
export function render({ model, el }: { model: Model; el: HTMLElement }): void {
  const header = model.get("header") as Header;
  const view = model.get("blobs") as DataView;
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  const state = model.get("state") as Partial<State>;
  const changed = (next: State): void => {
    model.set("state", next);
    model.save_changes();
  };
  const root = el.appendChild(document.createElement("div"));
  const app = mount(root, { ...header, state }, bytes, { changed, ask: asking(model) });
  model.on("change:state", () => app.set(model.get("state") as Partial<State>));
}

function start(): void {
  performance.mark("regard:start");
  const element = document.getElementById("regard-header");
  const root = document.getElementById("regard");
  if (!element || !root) return;
  const header = JSON.parse(element.textContent ?? "") as Header & { places: [number, number, number][] };
  mount(root, header, pageBlobs(header.places, header.scene.blobs), { links: true });
}

start();
