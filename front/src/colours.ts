/**
 * Colour maps in even steps of lightness in OKLab (Ottosson 2020), so that they read without hue,
 * for colour-blind eyes and in print.
 */
import type { Theme } from "./state";

type Lab = [number, number, number];

export interface Colours {
  /** Colours from no weight to all, as the 32 bits of a canvas. */
  weights: Uint32Array;
  /** Colours from -1 over 0 to 1. */
  readonly differences: Uint32Array;
  head(head: number): string;
}

function lch(lightness: number, chroma: number, hue: number): Lab {
  const angle = (hue * Math.PI) / 180;
  return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
}

function toRgb([lightness, a, b]: Lab): Lab {
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    gamma(4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short),
    gamma(-1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short),
    gamma(-0.0041960863 * long - 0.7034186147 * middle + 1.707614701 * short),
  ];
}

function gamma(value: number): number {
  const cut = Math.min(1, Math.max(0, value));
  const curved = cut <= 0.0031308 ? 12.92 * cut : 1.055 * cut ** (1 / 2.4) - 0.055;
  return Math.round(255 * curved);
}

function bits(colour: Lab): number {
  const [red, green, blue] = toRgb(colour);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Lightness, chroma and hue in OKLCH; the same stops as those of figures and of the terminal. */
type Stops = [at: number, lightness: number, chroma: number, hue: number][];

const STEPS = 257; // an odd number, so that one lies in the middle

const WEIGHTS: Record<Theme, Stops> = {
  light: [
    [0, 0.99, 0.005, 220], [0.25, 0.81, 0.085, 222], [0.5, 0.63, 0.13, 240], [0.75, 0.45, 0.15, 260], [1, 0.27, 0.12, 275],
  ],
  dark: [
    [0, 0.21, 0.03, 265], [0.25, 0.4, 0.11, 262], [0.5, 0.59, 0.12, 230], [0.75, 0.78, 0.12, 185], [1, 0.97, 0.09, 105],
  ],
};

// blue and orange part for every kind of eye
const DIFFERENCES: Record<Theme, Stops> = {
  light: [
    [0, 0.4, 0.14, 258], [0.25, 0.69, 0.09, 258], [0.5, 0.98, 0, 258], [0.5, 0.98, 0, 48], [0.75, 0.725, 0.09, 48], [1, 0.47, 0.13, 48],
  ],
  dark: [
    [0, 0.8, 0.14, 258], [0.25, 0.52, 0.09, 258], [0.5, 0.24, 0, 258], [0.5, 0.24, 0, 48], [0.75, 0.48, 0.09, 48], [1, 0.72, 0.13, 48],
  ],
};

const HEADS: Record<Theme, string[]> = {
  light: [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#882255", "#44aa99", "#332288", "#999933", "#aa4499", "#117733",
  ],
  dark: [
    "#4ea6e0", "#f0803c", "#2cc79b", "#e39cc3", "#dcb040", "#9bd3f5", "#d06a98", "#7fd0c2", "#9a8ff0", "#c4c466", "#cf7fcf", "#6cc07c",
  ],
};

function between(stops: Stops, at: number): Lab {
  const next = Math.max(1, stops.findIndex(([place]) => place >= at));
  const [one, two] = [stops[next - 1]!, stops[next]!];
  const share = two[0] === one[0] ? 0 : (at - one[0]) / (two[0] - one[0]);
  const [from, to] = [lch(one[1], one[2], one[3]), lch(two[1], two[2], two[3])];
  return from.map((part, axis) => part + share * (to[axis]! - part)) as Lab;
}

/** The colours between stops, in equal steps of lightness. */
export function table(stops: Stops): Uint32Array {
  return Uint32Array.from({ length: STEPS }, (_, step) => bits(between(stops, step / (STEPS - 1))));
}

const made = new Map<Theme, Colours>();

export function colours(theme: Theme): Colours {
  let found = made.get(theme);
  if (!found) {
    const heads = HEADS[theme];
    let differences: Uint32Array | undefined; // the first picture needs none
    found = {
      weights: table(WEIGHTS[theme]),
      get differences() {
        return (differences ??= table(DIFFERENCES[theme]));
      },
      head: (head) => heads[head % heads.length]!,
    };
    made.set(theme, found);
  }
  return found;
}

export function css(colour: number): string {
  return `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
}

/** Whether dark letters are read better on a colour than bright ones. */
export function isBright(colour: number): boolean {
  const [red, green, blue] = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140;
}

export function colourAt(map: Uint32Array, shade: number): number {
  return map[Math.min(STEPS - 1, Math.max(0, Math.round((STEPS - 1) * shade)))]!;
}

/** Paint shades, one pixel each. */
export function paint(canvas: HTMLCanvasElement, shades: Float32Array, columns: number, map: Uint32Array): void {
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, shades.length / Math.max(1, columns));
  const image = new ImageData(canvas.width, canvas.height);
  paintInto(image, shades, columns, map);
  canvas.getContext("2d")!.putImageData(image, 0, 0);
}

/** Put shades into a part of an image, one pixel each. */
export function paintInto(image: ImageData, shades: Float32Array, columns: number, map: Uint32Array, x = 0, y = 0): void {
  const pixels = new Uint32Array(image.data.buffer);
  for (let row = 0; row * columns < shades.length; row++) {
    const start = (y + row) * image.width + x;
    for (let column = 0; column < columns; column++) {
      pixels[start + column] = map[((STEPS - 1) * shades[row * columns + column]! + 0.5) | 0]!;
    }
  }
}
