/** What every view is given, and what it gives. */
import type { Colours } from "./colours";
import type { Scene } from "./scene";
import type { Language, State, Theme } from "./state";
import type { Tooltip } from "./tooltip";

/** An exact part of a long map that someone can be asked for. */
export interface WindowRequest {
  trace: number;
  site: string;
  head: number;
  rows: [number, number];
  columns: [number, number];
}

export type RequestWindow = (asked: WindowRequest) => Promise<Uint8Array>;

export interface ViewProps {
  scene: Scene;
  state: State; // with its language and theme filled in
  language: Language;
  theme: Theme;
  colours: Colours;
  tooltip: Tooltip;
  /** Gives parts of long maps that the scene does not hold; null in a page. */
  ask: RequestWindow | null;
  change: (changes: Partial<State>) => void;
}

export interface View {
  readonly element: HTMLElement;
  /** Draw the state, whose maps are there; the caption. */
  show(props: ViewProps): string;
  /** The least weight that is drawn. */
  readonly threshold?: number;
  /** Draw again at another size. */
  resize?(): void;
  /** Bring a token to where it is seen. */
  reveal?(axis: "row" | "column", place: number): void;
}
