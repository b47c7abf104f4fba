/** Token streams (a text, the patches of an image ...) and the axes of maps, which select tokens of a stream. */
import type { AxisHeader, StreamHeader } from "./scene-header";
import type { Unit } from "./state";

/** All tokens of one text or image, in their order. A place is the index of a token in its stream. */
export class TokenStream {
  readonly texts: string[];
  readonly plain: string[];
  readonly special: Set<number>;
  readonly marked: Set<number>;
  readonly grid: [number, number] | null;
  readonly named: boolean;

  constructor(readonly header: StreamHeader) {
    this.texts = header.texts;
    this.plain = header.plain ?? header.texts;
    this.special = new Set(header.special);
    this.marked = new Set(header.marked ?? []);
    this.grid = header.grid;
    this.named = header.named;
  }

  get length(): number {
    return this.texts.length;
  }

  /** Whether white space stands before the token in running text. */
  spaced(place: number): boolean {
    return this.header.spaced[place] === "1";
  }

  /** Whether one of the tokens from start to stop is marked, such as those of an answer. */
  hasMark(start: number, stop: number): boolean {
    for (let place = start; place < stop; place++) if (this.marked.has(place)) return true;
    return false;
  }

  /** For each token the number of the unit (token, word or sentence) that it belongs to. */
  units(unit: Unit): Int32Array {
    const numbers = new Int32Array(this.length);
    if (unit === "piece") return numbers.map((_, place) => place);
    let number = 0;
    const starts = unit === "word" ? this.header.words : this.header.sentences;
    for (let place = 0; place < this.length; place++) {
      while (number < starts.length && starts[number]! <= place) number++;
      numbers[place] = number;
    }
    return numbers;
  }

  /** The running text of tokens from start to stop. */
  text(start: number, stop: number): string {
    let text = "";
    for (let place = start; place < stop; place++) {
      text += (this.spaced(place) ? " " : "") + this.plain[place]!;
    }
    return text.trim();
  }

  /** The beginning of the text without special tokens. */
  beginning(most: number): string {
    let text = "";
    for (let place = 0; place < this.length && text.length <= most; place++) {
      if (!this.special.has(place)) text += (this.spaced(place) ? " " : "") + this.plain[place]!;
    }
    text = text.trim();
    return text.length > most ? `${text.slice(0, most - 1)}…` : text;
  }

  /** The text of a unit: a token as the tokenizer spells it, a word joined, a sentence as running text. */
  unitText(unit: Unit, start: number, stop: number): string {
    if (unit === "piece") return this.texts[start]!;
    return unit === "word" ? this.plain.slice(start, stop).join("") : this.text(start, stop);
  }
}

/** The rows or columns of a map: which tokens of which stream they are. */
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
