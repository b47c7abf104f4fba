/**
 * The entry of the page's code, and a map of it.
 *
 * Python (regard/views) packs traces into a scene: a JSON header that names tokens, sites and heads, and numbered blobs,
 * one compressed map for each head of each site. This code shows a scene. FORMAT.md describes every byte of it.
 *
 *   header + blobs          decoding/page-blobs.ts cuts a blob out of the page's text, decoding/utf16.ts undoes the text
 *        |                  encoding, decoding/inflate.ts the compression, decoding/map-blob.ts the code of the weights
 *        v
 *   Scene (scene.ts)        sites and token streams; decodes a map when it is first needed, forgets the oldest ones
 *        |
 *   ViewState (state.ts)        which view of which site and head; lives in the address, so that a link opens the same picture
 *        |
 *        v
 *   numbers/<kind>.ts       what a view shows, as plain numbers and a caption: no DOM, and the same results as
 *        |                  regard/views/kinds/<kind>/numbers.py; both read the examples of tests/views/vectors.json
 *        v
 *   views/<kind>.ts         draws the numbers on a canvas or as elements, and turns clicks into changes of the state
 *
 * app.ts runs this circle: a change of the state -> load the maps that it needs -> numbers -> draw -> wait for the next
 * change. Around the picture stand the tabs and buttons (app.ts), the controls (toolbar.ts), the keyboard (keyboard.ts),
 * the search for a token (search.ts) and, in a report, the list of findings (findings.ts).
 *
 * An example: a reader of a page of "I love you" presses 2 and clicks the row of 爱.
 * 1. keyboard.ts turns "2" into { view: "heatmap" }. App.change merges it into the state, writes #view=heatmap into the
 *    address and calls App.show.
 * 2. requiredBlobs names the maps of the four heads of decoder.layers.1.cross, whose mean is shown; Scene.load decodes
 *    each of their blobs into a matrix of 4 x 4 weights.
 * 3. heatmapNumbers leaves out hidden tokens, groups tokens into words if asked to, and gives the weights, a shade from 0
 *    to 1 for each, labels and the caption "decoder.layers.1.cross, mean over 4 heads. ...".
 * 4. HeatmapView paints the shades. The click calls props.change({ axis: "row", place: 1 }), and the circle starts again:
 *    the row gets a frame, and the list "What 爱 attends to." beside the map begins with love, 92%.
 *
 * New kinds of view are registered in Python (regard/views/kinds); generated/kinds.ts and views/registry.ts follow it.
 * Sentences come from regard/text with the header (text.ts), colours from regard/views/colours.json (colours.ts).
 *
 * Three hosts start it: a page by itself (`start`), a notebook widget (`render`), and anything else by `mount`.
 */
import { App, type Header, type Options } from "./app";
import { pageBlobs } from "./decoding/page-blobs";
import type { Blobs } from "./scene";
import type { ViewState } from "./state";
import type { RequestWindow } from "./view";

/** Show a scene in an element. The blobs are one array, in the order of the header, or a function that gets one by number. */
export function mount(element: HTMLElement, header: Header, blobs: Uint8Array | Blobs, options: Options = {}): App {
  if (typeof blobs === "function") return new App(element, header, blobs, options);
  const starts = [0];
  for (const size of header.scene.blobs) starts.push(starts.at(-1)! + size);
  return new App(element, header, (blob) => blobs.slice(starts[blob], starts[blob + 1]), options);
}

/** What anywidget gives to a widget: named values that Python shares, and messages. */
interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  send(content: unknown): void;
  on(event: string, handler: (content: unknown, buffers: DataView[]) => void): void;
}

interface WindowReply {
  regard?: string;
  id?: number;
  error?: string;
}

/** Requests for exact windows of long maps, answered by the Python of a notebook (FORMAT.md, section 10). */
function windowRequests(model: Model): RequestWindow {
  let last = 0;
  const waiting = new Map<number, { resolve: (bytes: Uint8Array) => void; reject: (error: Error) => void }>();
  model.on("msg:custom", (content, buffers) => {
    const { regard, id, error } = content as WindowReply;
    const request = regard === "window" ? waiting.get(id ?? -1) : undefined;
    if (!request) return;
    waiting.delete(id!);
    const view = buffers[0];
    if (error !== undefined || !view) request.reject(new Error(error));
    else request.resolve(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
  });
  return (window) =>
    new Promise((resolve, reject) => {
      waiting.set(++last, { resolve, reject });
      model.send({ regard: "window", id: last, ...window });
    });
}

/** Show a notebook's widget: Python sends `header` (JSON) and `blobs` (bytes); `state` is kept equal on both sides. */
export function render({ model, el }: { model: Model; el: HTMLElement }): void {
  const header = model.get("header") as Header;
  const view = model.get("blobs") as DataView;
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  const state = model.get("state") as Partial<ViewState>;
  const changed = (next: ViewState): void => {
    model.set("state", next);
    model.save_changes();
  };
  const root = el.appendChild(document.createElement("div"));
  const app = mount(root, { ...header, state }, bytes, { changed, requestWindow: windowRequests(model) });
  model.on("change:state", () => app.set(model.get("state") as Partial<ViewState>));
}

/** Show the scene of the page that this script stands in; in a notebook there is none. */
function start(): void {
  performance.mark("regard:start");
  const element = document.getElementById("regard-header");
  const root = document.getElementById("regard");
  if (!element || !root) return;
  const header = JSON.parse(element.textContent ?? "") as Header & { places: [number, number, number][] };
  mount(root, header, pageBlobs(header.places, header.scene.blobs), { links: true });
}

start();
