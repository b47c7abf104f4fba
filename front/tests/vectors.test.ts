/**
 * Reads the examples that the tests of Python read too, tests/views/vectors.json: both sides have to give the same bytes,
 * hashes, numbers and captions.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { checkLabel, percent } from "../src/captions";
import { fromCharacters } from "../src/decoding/utf16";
import { decode } from "../src/decoding/map-blob";
import { openFinding } from "../src/findings";
import type { FindingHeader, SceneHeader } from "../src/scene-header";
import { inflate } from "../src/decoding/inflate";
import type { Matrix } from "../src/matrix";
import { compareNumbers } from "../src/numbers/compare";
import { heatmapNumbers, ticks } from "../src/numbers/heatmap";
import { highlightNumbers } from "../src/numbers/highlight";
import { flowNumbers } from "../src/numbers/flow";
import { requiredBlobs } from "../src/numbers/required-blobs";
import type { Label } from "../src/numbers/labelled-map";
import { headsNumbers } from "../src/numbers/heads";
import { Scene } from "../src/scene";
import { fromHash, toHash, DEFAULT_STATE, type Language, type ViewState } from "../src/state";
import { setSentences } from "../src/text";

interface Vectors {
  characters: { bytes: string; units: number[] };
  maps: { name: string; blob: string; weights: number[][] }[];
  scene: SceneHeader;
  blobs: string[];
  findings: FindingHeader[];
  opened: [number, ViewState][];
  hashes: { state: ViewState; hash: string }[];
  percents: [number, string][];
  ticks: [number, number, number[]][];
  numbers: { state: ViewState; numbers: Record<string, unknown> }[];
}

const read = (path: string): unknown => JSON.parse(readFileSync(path, "utf-8"));
const vectors = read("../tests/views/vectors.json") as Vectors;

/** The sentences of the page, as Python puts them into the header. */
function pageSentences(language: Language): Record<string, string> {
  const areas = ["page", "views", "findings"].map((area) => read(`../src/regard/text/${area}.json`));
  const byKey = Object.assign({}, ...areas) as Record<string, Record<Language, string>>;
  return Object.fromEntries(Object.entries(byKey).map(([key, text]) => [key, text[language]]));
}
setSentences({ en: pageSentences("en"), zh: pageSentences("zh") });

const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "base64"));

/** Assert that numbers agree within the precision of the code of weights, and everything else exactly. */
function near(found: unknown, stored: unknown, path = ""): void {
  if (typeof stored === "number") {
    const close = Math.abs((found as number) - stored) <= 1e-7 + 1e-4 * Math.abs(stored);
    assert.ok(close, `${path}: ${String(found)} is not ${stored}`);
  } else if (stored !== null && typeof stored === "object") {
    const [mine, theirs] = [found as object, stored as object];
    assert.deepEqual(Object.keys(mine).sort(), Object.keys(theirs).sort(), path);
    for (const [key, value] of Object.entries(theirs)) {
      near((mine as Record<string, unknown>)[key], value, `${path}.${key}`);
    }
  } else assert.equal(found, stored, path);
}

const nested = ({ rows, columns, data }: Matrix): number[][] =>
  Array.from({ length: rows }, (_, row) => [...data.subarray(row * columns, (row + 1) * columns)]);

/** The numbers of a view with the names and the nesting that Python writes into the examples. */
function numbersAsPython(scene: Scene, state: ViewState): Record<string, unknown> {
  const label = ({ text, start, stop, special }: Label): Label => ({ text, start, stop, special });
  const labels = (each: Label[]): Label[] => each.map(label);
  if (state.view === "heatmap") {
    const { weights, shades, rows, columns, cells, caption } = heatmapNumbers(scene, state);
    const shaded = nested({ ...weights, data: shades });
    const sides = { rows: labels(rows), columns: labels(columns) };
    return { weights: nested(weights), shades: shaded, ...sides, cells, caption };
  }
  if (state.view === "highlight") return { ...highlightNumbers(scene, state) };
  if (state.view === "flow") {
    const found = flowNumbers(scene, state);
    return { ...found, levels: found.levels.map(labels) };
  }
  if (state.view === "compare") {
    const { first, second, difference: minus, rows, columns, caption } = compareNumbers(scene, state);
    const maps = { first: nested(first), second: nested(second), difference: nested(minus) };
    return { ...maps, rows: labels(rows), columns: labels(columns), caption };
  }
  const found = headsNumbers(scene, state);
  const rows = found.rows.map((row) =>
    row.map(({ site, head, height, width, shades }) => ({
      site: site.name,
      kind: site.kind,
      head,
      number: site.number(head),
      shades: nested({ rows: height, columns: width, data: shades }),
      badges: site.badges(head).map((each) => checkLabel(state.language ?? "en", each)),
    })),
  );
  return { rows, caption: found.caption };
}

for (const { name, blob, weights } of vectors.maps) {
  test(`a stored map decodes to theirs weights: ${name}`, () => {
    near(nested(decode(inflate(bytes(blob)))), weights);
  });
}

test("what was deflated in any way is inflated", () => {
  const noise = Uint8Array.from({ length: 70_001 }, (_, index) => (index * index * 7919) >>> 5);
  const plain = new Uint8Array(100_003).map((_, index) => (index % 997 < 500 ? 3 : index % 13));
  for (const data of [new Uint8Array(0), Uint8Array.of(5), noise, plain]) {
    for (const options of [{ level: 0 }, { level: 9 }, { level: 1 }, { strategy: 4 }, { strategy: 2 }]) {
      assert.deepEqual(Buffer.from(inflate(deflateRawSync(data, options))), Buffer.from(data));
    }
  }
});

test("characters give back their bytes", () => {
  const text = String.fromCharCode(...vectors.characters.units);
  const stored = Buffer.from(vectors.characters.bytes, "hex");
  const found = fromCharacters(`ab${text}`, 2, text.length, stored.length);
  assert.deepEqual(Buffer.from(found), stored);
});

for (const { state, hash } of vectors.hashes) {
  test(`a state is theirs hash: ${hash}`, () => {
    assert.equal(toHash(state), hash);
    assert.deepEqual(fromHash(hash), state);
  });
}

test("what a hash cannot say stays as usual", () => {
  const usual = fromHash("#");
  assert.deepEqual(fromHash("#view=nothing&head=-1&place=x&hide=all&threshold=2&=&%"), usual);
});

test("an empty value is nothing chosen", () => {
  const usual = { ...fromHash("#"), head: 3, heads: [1], hide: ["first" as const] };
  assert.deepEqual(fromHash("#head=&heads=&hide=", usual), fromHash("#"));
});

test("weights and labels are written as Python writes them", () => {
  for (const [weight, text] of vectors.percents) assert.equal(percent(weight), text);
  for (const [count, most, found] of vectors.ticks) assert.deepEqual(ticks(count, most), found);
  assert.equal(percent(0.0625), "6.2%"); // halves to even
  assert.equal(percent(0.1875), "18.8%");
});

for (const [index, { state, numbers }] of vectors.numbers.entries()) {
  test(`the numbers of a picture are the stored ones: ${index} ${state.view}`, async () => {
    const scene = new Scene(vectors.scene, (blob) => bytes(vectors.blobs[blob]!));
    await scene.load(requiredBlobs(scene, state));
    await scene.loadThumbs(scene.trace(state.trace).sites);
    near(numbersAsPython(scene, state), numbers);
  });
}

test("a finding is opened as Python opens it", () => {
  const scene = new Scene({ ...vectors.scene, findings: vectors.findings }, () => new Uint8Array());
  for (const [index, state] of vectors.opened) assert.deepEqual({ ...DEFAULT_STATE, ...openFinding(scene, index) }, state);
  const without = vectors.findings.findIndex(({ drawing }) => drawing === null);
  assert.deepEqual(openFinding(scene, without), { finding: without });
});
