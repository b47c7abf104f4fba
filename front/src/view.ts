/** What every view is given, and what it gives. */
import type { Colours } from "./colours";
import type { Scene } from "./scene";
import type { Language, State, Theme } from "./state";
import type { Tip } from "./tooltip";

/** An exact part of a long map that someone can be asked for. */
export interface Asked {
  trace: number;
  site: string;
  head: number;
  rows: [number, number];
  columns: [number, number];
}

export type Ask = (asked: Asked) => Promise<Uint8Array>;

export interface Look {
  scene: Scene;
  state: State; // with its language and theme filled in
  language: Language;
  theme: Theme;
  colours: Colours;
  tip: Tip;
  /** Gives parts of long maps that the scene does not hold; null in a page. */
  ask: Ask | null;
  change: (changes: Partial<State>) => void;
}

export interface Drawing {
  readonly element: HTMLElement;
  /** Draw the state, whose maps are there; the caption. */
  show(look: Look): string;
  /** The least weight that is drawn. */
  readonly threshold?: number;
  /** Draw again at another size. */
  resize?(): void;
  /** Bring a token to where it is seen. */
  reveal?(axis: "row" | "column", place: number): void;
}
