/** The scene: traces with their sites and token streams, and maps that are decoded when they are first needed. */
import { inflate } from "./decoding/inflate";
import { decode } from "./decoding/map-blob";
import { mean, type Matrix } from "./matrix";
import type { SceneHeader, SiteHeader, TraceHeader } from "./scene-header";
import { Axis, TokenStream } from "./token-streams";

const MAX_HELD = 1 << 28; // bytes of decoded maps that are kept
const LONGEST_BLOCK = 200; // milliseconds of decoding before the browser gets a turn

/** The bytes of a blob by its number; a promise where the page is still being parsed. */
export type Blobs = (blob: number) => Uint8Array | Promise<Uint8Array>;

/** One place of the model where attention was captured, with all of its heads. */
export class SceneSite {
  readonly rows: Axis;
  readonly columns: Axis;
  readonly produced: Axis | null;

  constructor(readonly header: SiteHeader) {
    this.rows = new Axis(header.rows);
    this.columns = new Axis(header.columns);
    this.produced = header.produced && new Axis(header.produced);
  }

  get name(): string {
    return this.header.name;
  }

  get kind(): string {
    return this.header.kind;
  }

  get heads(): number {
    return this.header.heads;
  }

  /** Whether the map is stored as means over cells, because it has too many weights. */
  get long(): boolean {
    return this.header.cells[0] !== 1 || this.header.cells[1] !== 1;
  }

  /** The number of a head in the model; differs from its index where only some heads were kept. */
  number(head: number): number {
    return this.header.numbers?.[head] ?? head;
  }

  /** Short names of what was found at a head. */
  badges(head: number): string[] {
    return this.header.badges?.[head] ?? [];
  }
}

/** One trace of the scene: its token streams and sites. */
export class SceneTrace {
  readonly name: string;
  readonly streams: Map<string, TokenStream>;
  readonly sites: SceneSite[];

  constructor(readonly header: TraceHeader) {
    this.name = header.name;
    const streams = Object.entries(header.streams);
    this.streams = new Map(streams.map(([name, each]) => [name, new TokenStream(each)]));
    this.sites = header.sites.map((each) => new SceneSite(each));
  }

  site(name: string | null): SceneSite {
    return this.sites.find((each) => each.name === name) ?? this.sites[0]!;
  }

  stream(axis: Axis): TokenStream {
    return this.streams.get(axis.stream)!;
  }

  /** The sites of the same kind with the same rows and columns: the layers of one stack, in their order. */
  alike(site: SceneSite): SceneSite[] {
    return this.sites.filter(
      (each) =>
        each.kind === site.kind && each.rows.equals(site.rows) && each.columns.equals(site.columns),
    );
  }
}

export class Scene {
  readonly traces: SceneTrace[];
  private readonly held = new Map<number, Matrix>();
  private readonly means = new WeakMap<SceneSite, Matrix>();
  private readonly thumbnails = new Map<number, Uint8Array>();

  constructor(
    readonly header: SceneHeader,
    private readonly blobs: Blobs,
  ) {
    this.traces = header.traces.map((each) => new SceneTrace(each));
  }

  trace(index: number): SceneTrace {
    return this.traces[index] ?? this.traces[0]!;
  }

  /**
   * Decode these maps, unless they are held already. Maps that the page has read already are decoded before this
   * returns; a pause now and then lets the browser answer the reader.
   */
  async load(blobs: number[]): Promise<void> {
    let since = performance.now();
    for (const blob of blobs) {
      if (this.held.has(blob)) continue;
      const bytes = this.blobs(blob);
      this.held.set(blob, decode(inflate(bytes instanceof Promise ? await bytes : bytes)));
      if (performance.now() - since > LONGEST_BLOCK) {
        await new Promise((resolve) => setTimeout(resolve));
        since = performance.now();
      }
    }
  }

  /** Forget the maps that were used longest ago; called between pictures only, when no view holds one. */
  tidy(): void {
    let size = 0;
    for (const map of this.held.values()) size += map.data.byteLength;
    for (const [blob, map] of this.held) {
      if (size <= MAX_HELD) break;
      this.held.delete(blob);
      size -= map.data.byteLength;
    }
  }

  /** The bytes of a blob that is no map, such as an image. */
  async bytes(blob: number): Promise<Uint8Array> {
    return this.blobs(blob);
  }

  /** A map that `load` has decoded. */
  loaded(blob: number): Matrix {
    const map = this.held.get(blob);
    if (!map) throw new Error(`blob ${blob} was not loaded`);
    this.held.delete(blob); // a Map keeps the order of insertion, so that the most recently used one is last
    this.held.set(blob, map);
    return map;
  }

  /** Whether the map of a blob is decoded. */
  has(blob: number): boolean {
    return this.held.has(blob);
  }

  /** The blobs of a head, or of all heads for their mean; none if the mean was computed before. */
  blobsOf(site: SceneSite, head: number | null): number[] {
    if (head !== null) return [site.header.maps[head]!];
    return this.means.has(site) ? [] : site.header.maps;
  }

  /** The weights of a head, or their mean over heads; of a long map, the means of its cells. */
  weights(site: SceneSite, head: number | null): Matrix {
    if (head !== null) return this.loaded(site.header.maps[head]!);
    let average = this.means.get(site);
    if (!average) {
      average = mean(site.header.maps.map((blob) => this.loaded(blob)));
      this.means.set(site, average);
    }
    return average;
  }

  /** Decompress the thumbnails of sites, unless they are held already. */
  async loadThumbs(sites: SceneSite[]): Promise<void> {
    for (const { header } of sites) {
      const { blob } = header.thumbs;
      if (this.thumbnails.has(blob)) continue;
      const bytes = this.blobs(blob);
      this.thumbnails.set(blob, inflate(bytes instanceof Promise ? await bytes : bytes));
    }
  }

  /** The levels of all thumbnails of a site, head by head, that `loadThumbs` has decompressed. */
  thumbsLoaded(site: SceneSite): Uint8Array {
    const levels = this.thumbnails.get(site.header.thumbs.blob);
    if (!levels) throw new Error(`thumbnails of ${site.name} were not loaded`);
    return levels;
  }
}
