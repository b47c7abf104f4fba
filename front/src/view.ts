/** What every view gets from the app (ViewProps), and what it has to provide (View). */
import type { Colours } from "./colours";
import type { Scene } from "./scene";
import type { Language, ViewState, Theme } from "./state";
import type { Tooltip } from "./tooltip";

/** A window of a long map whose exact weights are wanted: rows and columns are [first, last). */
export interface WindowRequest {
  trace: number;
  site: string;
  head: number;
  rows: [number, number];
  columns: [number, number];
}

export type RequestWindow = (request: WindowRequest) => Promise<Uint8Array>;

export interface ViewProps {
  scene: Scene;
  state: ViewState; // language and theme are never null here
  language: Language;
  theme: Theme;
  colours: Colours;
  tooltip: Tooltip;
  /** Gets exact weights that the scene does not hold; null in a page, where no Python can be asked. */
  requestWindow: RequestWindow | null;
  /** Merge changes into the state and draw it. */
  change: (changes: Partial<ViewState>) => void;
}

export interface View {
  readonly element: HTMLElement;
  /** Draw the state, whose maps have been loaded, and return the caption. */
  show(props: ViewProps): string;
  /** The smallest weight that was drawn, for views that have a threshold. */
  readonly threshold?: number;
  /** Draw again after the width has changed. */
  resize?(): void;
  /** Scroll or move so that a token can be seen. */
  reveal?(axis: "row" | "column", place: number): void;
}
