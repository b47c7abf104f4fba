/**
 * Sentences by key, in the language of the reader.
 *
 * They are written once, for Python and for this page, in src/regard/text/*.json; the page's header carries those that
 * it may need. `say` fills them in by the rule of Python's `regard.text.say`.
 */
import type { Language } from "./state";

export type Sentences = Record<Language, Record<string, string>>;
export type Values = Record<string, string | number>;

let sentences: Sentences = { en: {}, zh: {} };

/** Take the sentences that came with the header. */
export function setSentences(received: Sentences): void {
  sentences = received;
}

/** The sentence of a key with its values filled in; without a language, English. An unknown key shows as itself. */
export function say(key: string, language: Language | null, values: Values = {}): string {
  const template = sentences[language ?? "en"][key] ?? key;
  // in one pass: a token that is filled in may hold braces itself
  return template.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ""));
}

export function isSentence(key: string): boolean {
  return key in sentences.en;
}
