/** Thrown when a view cannot draw a state; `key` names the sentence that tells the reader why (text/page.json, "refuse.*"). */
export class CannotDraw extends Error {
  constructor(readonly key: string) {
    super(key);
  }
}
