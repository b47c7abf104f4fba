/** A picture that cannot be drawn, said with a key of the front end's phrases. */
export class CannotDraw extends Error {
  constructor(readonly key: string) {
    super(key);
  }
}
