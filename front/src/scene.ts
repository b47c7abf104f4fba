/** The scene: streams, sites, and maps that are decoded when they are looked at. */
import { decode } from "./decoding/map-blob";
import type { SceneHeader, SiteHeader, TraceHeader } from "./scene-header";
import { inflate } from "./decoding/inflate";
import { mean, type Matrix } from "./matrix";
import { Axis, Stream } from "./token-streams";

const HELD = 1 << 28; // bytes of maps that are kept when they have been looked at
const PATIENCE = 200; // milliseconds of decoding between pauses

/** The bytes of a blob by its number; a page may still be reading them. */
export type Blobs = (blob: number) => Uint8Array | Promise<Uint8Array>;

export class Site {
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

  /** Whether only cells are held, not every weight. */
  get long(): boolean {
    return this.header.cells[0] !== 1 || this.header.cells[1] !== 1;
  }

  /** A head's number in the model. */
  number(head: number): number {
    return this.header.numbers?.[head] ?? head;
  }

  badges(head: number): string[] {
    return this.header.badges?.[head] ?? [];
  }
}

export class SceneTrace {
  readonly name: string;
  readonly streams: Map<string, Stream>;
  readonly sites: Site[];

  constructor(readonly header: TraceHeader) {
    this.name = header.name;
    const streams = Object.entries(header.streams);
    this.streams = new Map(streams.map(([name, each]) => [name, new Stream(each)]));
    this.sites = header.sites.map((each) => new Site(each));
  }

  site(name: string | null): Site {
    return this.sites.find((each) => each.name === name) ?? this.sites[0]!;
  }

  stream(axis: Axis): Stream {
    return this.streams.get(axis.stream)!;
  }

  /** The sites of one kind that props from the same rows at the same columns, in their order. */
  alike(site: Site): Site[] {
    return this.sites.filter(
      (each) =>
        each.kind === site.kind && each.rows.equals(site.rows) && each.columns.equals(site.columns),
    );
  }
}

export class Scene {
  readonly traces: SceneTrace[];
  private readonly held = new Map<number, Matrix>();
  private readonly means = new WeakMap<Site, Matrix>();
  private readonly small = new Map<number, Uint8Array>();

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
   * Decode these maps, unless they are held already. What the page has read already is decoded
   * before this returns, but for a pause now and then in which the reader is answered.
   */
  async load(blobs: number[]): Promise<void> {
    let since = performance.now();
    for (const blob of blobs) {
      if (this.held.has(blob)) continue;
      const bytes = this.blobs(blob);
      this.held.set(blob, decode(inflate(bytes instanceof Promise ? await bytes : bytes)));
      if (performance.now() - since > PATIENCE) {
        await new Promise((resolve) => setTimeout(resolve));
        since = performance.now();
      }
    }
  }

  /** Let go of maps that were looked at longest ago; called between pictures only. */
  tidy(): void {
    let size = 0;
    for (const map of this.held.values()) size += map.data.byteLength;
    for (const [blob, map] of this.held) {
      if (size <= HELD) break;
      this.held.delete(blob);
      size -= map.data.byteLength;
    }
  }

  async bytes(blob: number): Promise<Uint8Array> {
    return this.blobs(blob);
  }

  /** A map that was loaded. */
  loaded(blob: number): Matrix {
    const map = this.held.get(blob);
    if (!map) throw new Error(`blob ${blob} was not loaded`);
    this.held.delete(blob); // the last one looked at stands last
    this.held.set(blob, map);
    return map;
  }

  has(blob: number): boolean {
    return this.held.has(blob);
  }

  /** The blobs of a head, or of all heads if it is null; none if their mean is known. */
  blobsOf(site: Site, head: number | null): number[] {
    if (head !== null) return [site.header.maps[head]!];
    return this.means.has(site) ? [] : site.header.maps;
  }

  /** The weights of a head, or their mean over heads; of a long map, those of its cells. */
  weights(site: Site, head: number | null): Matrix {
    if (head !== null) return this.loaded(site.header.maps[head]!);
    let found = this.means.get(site);
    if (!found) {
      found = mean(site.header.maps.map((blob) => this.loaded(blob)));
      this.means.set(site, found);
    }
    return found;
  }

  /** Inflate the thumbnails of sites, unless they are held already. */
  async loadThumbs(sites: Site[]): Promise<void> {
    for (const { header } of sites) {
      const { blob } = header.thumbs;
      if (this.small.has(blob)) continue;
      const bytes = this.blobs(blob);
      this.small.set(blob, inflate(bytes instanceof Promise ? await bytes : bytes));
    }
  }

  /** The levels of all thumbnails of a site, head by head, that were loaded. */
  thumbsLoaded(site: Site): Uint8Array {
    const found = this.small.get(site.header.thumbs.blob);
    if (!found) throw new Error(`thumbnails of ${site.name} were not loaded`);
    return found;
  }
}
