/** The header of a scene as it travels (FORMAT.md, section 1). */

export interface StreamHeader {
  texts: string[];
  plain: string[] | null;
  spaced: string;
  special: number[];
  words: number[];
  sentences: number[];
  named: boolean;
  grid: [number, number] | null;
}

export interface AxisHeader {
  stream: string;
  runs: [number, number][];
}

export interface WindowHeader {
  head: number;
  rows: [number, number];
  columns: [number, number];
  blob: number;
}

export interface SiteHeader {
  name: string;
  kind: string;
  layer: number | null;
  rows: AxisHeader;
  columns: AxisHeader;
  produced: AxisHeader | null;
  heads: number;
  numbers: number[] | null;
  badges: string[][] | null;
  cells: [number, number];
  maps: number[];
  largest: { cells: [number, number]; maps: number[] } | null;
  windows: WindowHeader[];
  thumbs: { blob: number; size: [number, number] };
}

export interface TraceHeader {
  name: string;
  streams: Record<string, StreamHeader>;
  sites: SiteHeader[];
  pictures: Record<string, { type: string; blob: number }>;
  gaps: { site: string; reason: string }[];
}

export interface SceneHeader {
  title: string;
  traces: TraceHeader[];
  alignments: Record<string, [number, number, number, number][]> | null;
  more: string | null;
  blobs: number[];
}
