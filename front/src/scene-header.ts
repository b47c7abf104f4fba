/** The header of a scene as JSON: what Python writes (FORMAT.md, section 1 explains every field). */

import type { ViewKind } from "./state";

export interface StreamHeader {
  texts: string[];
  plain: string[] | null;
  spaced: string;
  special: number[];
  words: number[];
  sentences: number[];
  named: boolean;
  grid: [number, number] | null;
  marked?: number[];
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
  mended: boolean;
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

export type Severity = "bug" | "warning" | "observation";

export interface SayingHeader {
  sentence: string;
  meaning: string;
  remedy: string;
}

/** The view that shows a finding: which site, head, rows and columns. */
export interface DrawingHeader {
  view: ViewKind;
  site: string | null;
  head: number | null;
  rows: number[];
  columns: number[];
}

export interface FindingHeader {
  check: string;
  severity: Severity;
  value: number | null;
  limit: number | null;
  said: Record<string, SayingHeader>;
  site: string | null;
  head: number | null;
  trace: number;
  drawing: DrawingHeader | null;
  call: string | null;
}

export interface SceneHeader {
  title: string;
  traces: TraceHeader[];
  alignments: Record<string, [number, number, number, number][]> | null;
  more: string | null;
  /** The findings of a report; null in every other scene. */
  findings: FindingHeader[] | null;
  blobs: number[];
}
