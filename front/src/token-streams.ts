/** A stream of tokens as readers see it: plain texts, spaces, words and sentences. */
import type { AxisHeader, StreamHeader } from "./scene-header";
import type { Unit } from "./state";

export class Stream {
  readonly texts: string[];
  readonly plain: string[];
  readonly special: Set<number>;
  readonly grid: [number, number] | null;
  readonly named: boolean;

  constructor(readonly header: StreamHeader) {
    this.texts = header.texts;
    this.plain = header.plain ?? header.texts;
    this.special = new Set(header.special);
    this.grid = header.grid;
    this.named = header.named;
  }

  get length(): number {
    return this.texts.length;
  }

  spaced(place: number): boolean {
    return this.header.spaced[place] === "1";
  }

  /** For each place the number of the unit that it is in. */
  units(unit: Unit): Int32Array {
    const found = new Int32Array(this.length);
    if (unit === "piece") return found.map((_, place) => place);
    let number = 0;
    const starts = unit === "word" ? this.header.words : this.header.sentences;
    for (let place = 0; place < this.length; place++) {
      while (number < starts.length && starts[number]! <= place) number++;
      found[place] = number;
    }
    return found;
  }

  /** The running text of tokens from start to stop. */
  text(start: number, stop: number): string {
    let found = "";
    for (let place = start; place < stop; place++) {
      found += (this.spaced(place) ? " " : "") + this.plain[place]!;
    }
    return found.trim();
  }

  /** The beginning of the text without special tokens. */
  beginning(most: number): string {
    let found = "";
    for (let place = 0; place < this.length && found.length <= most; place++) {
      if (!this.special.has(place)) found += (this.spaced(place) ? " " : "") + this.plain[place]!;
    }
    found = found.trim();
    return found.length > most ? `${found.slice(0, most - 1)}…` : found;
  }

  /** What a unit is called: a piece as it is spelled, a word joined, a sentence as text. */
  unitText(unit: Unit, start: number, stop: number): string {
    if (unit === "piece") return this.texts[start]!;
    return unit === "word" ? this.plain.slice(start, stop).join("") : this.text(start, stop);
  }
}

/** The places of a stream that rows or columns stand for. */
export class Axis {
  readonly stream: string;
  readonly places: Int32Array;

  constructor(header: AxisHeader) {
    this.stream = header.stream;
    const places: number[] = [];
    for (const [start, stop] of header.runs) {
      for (let place = start; place < stop; place++) places.push(place);
    }
    this.places = Int32Array.from(places);
  }

  get length(): number {
    return this.places.length;
  }

  equals(other: Axis): boolean {
    return (
      this.stream === other.stream &&
      this.length === other.length &&
      this.places.every((place, index) => place === other.places[index])
    );
  }
}
