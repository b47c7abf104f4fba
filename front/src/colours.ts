/**
 * Colour maps, and painting with them.
 *
 * Their stops are those of figures and of the terminal, written once in src/regard/views/colours.json. Colours between
 * two stops are interpolated in OKLab (Ottosson 2020), where equal steps look equally large.
 */
import stopsOf from "./generated/colours.json";
import type { Theme } from "./state";

type Lab = [number, number, number];

export interface Colours {
  /** Colours from no weight to all, as the 32 bits of a canvas. */
  weights: Uint32Array;
  /** Colours from -1 over 0 to 1. */
  readonly differences: Uint32Array;
  head(head: number): string;
}

/** A colour of OKLCH in OKLab: the same, with hue as an angle. */
function toLab(lightness: number, chroma: number, hue: number): Lab {
  const angle = (hue * Math.PI) / 180;
  return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
}

/** OKLab to sRGB of 8 toPixel, with the matrices of Ottosson 2020. */
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

/** Linear light to 8 bits of sRGB. */
function gamma(value: number): number {
  const cut = Math.min(1, Math.max(0, value));
  const curved = cut <= 0.0031308 ? 12.92 * cut : 1.055 * cut ** (1 / 2.4) - 0.055;
  return Math.round(255 * curved);
}

/** A colour as the 32 bits of a canvas pixel. */
function toPixel(colour: Lab): number {
  const [red, green, blue] = toRgb(colour);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Lightness, chroma and hue in OKLCH at places from 0 to 1. */
type Stops = number[][];

const STEPS = 257; // an odd number, so that one step lies exactly in the middle

/** The colour at a place from 0 to 1, between the two stops around it. */
function interpolate(stops: Stops, at: number): Lab {
  const next = Math.max(1, stops.findIndex(([place]) => place! >= at));
  const [start, lightness, chroma, hue] = stops[next - 1] as [number, number, number, number];
  const [stop, ...last] = stops[next] as [number, number, number, number];
  const share = stop === start ? 0 : (at - start) / (stop - start);
  const [from, to] = [toLab(lightness, chroma, hue), toLab(...last)];
  return from.map((part, axis) => part + share * (to[axis]! - part)) as Lab;
}

/** The colours of a map in 257 steps, as the 32 bits of a canvas pixel. */
export function colourTable(stops: Stops): Uint32Array {
  return Uint32Array.from({ length: STEPS }, (_, step) => toPixel(interpolate(stops, step / (STEPS - 1))));
}

const byTheme = new Map<Theme, Colours>();

/** The colours of a theme, made once. */
export function colours(theme: Theme): Colours {
  let cached = byTheme.get(theme);
  if (!cached) {
    const heads = stopsOf.heads[theme];
    let differences: Uint32Array | undefined; // made when first used: the first picture needs none
    cached = {
      weights: colourTable(stopsOf.weights[theme]),
      get differences() {
        return (differences ??= colourTable(stopsOf.differences[theme]));
      },
      head: (head) => heads[head % heads.length]!,
    };
    byTheme.set(theme, cached);
  }
  return cached;
}

/** A pixel of a canvas as a CSS colour. */
export function css(colour: number): string {
  return `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
}

/** Whether dark letters are read better on a colour than bright ones. */
export function isBright(colour: number): boolean {
  const [red, green, blue] = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140;
}

/** The colour of a shade from 0 to 1. */
export function colourAt(map: Uint32Array, shade: number): number {
  return map[Math.min(STEPS - 1, Math.max(0, Math.round((STEPS - 1) * shade)))]!;
}

/** Paint shades on a canvas of their size, one pixel each. */
export function paint(canvas: HTMLCanvasElement, shades: Float32Array, columns: number, map: Uint32Array): void {
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, shades.length / Math.max(1, columns));
  const image = new ImageData(canvas.width, canvas.height);
  paintShades(image, shades, columns, map);
  canvas.getContext("2d")!.putImageData(image, 0, 0);
}

/** Put shades into a part of an image, one pixel each. */
export function paintShades(image: ImageData, shades: Float32Array, columns: number, map: Uint32Array, x = 0, y = 0): void {
  const pixels = new Uint32Array(image.data.buffer);
  for (let row = 0; row * columns < shades.length; row++) {
    const start = (y + row) * image.width + x;
    for (let column = 0; column < columns; column++) {
      pixels[start + column] = map[((STEPS - 1) * shades[row * columns + column]! + 0.5) | 0]!;
    }
  }
}
