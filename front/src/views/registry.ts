/**
 * Makes the object that draws a kind of view.
 *
 * Kinds are registered in Python (src/regard/views/kinds). tools/write_front_data.py writes their names, order, keys
 * and labels to generated/kinds.ts, and the class that draws each (FlowView of ./flow.ts) to generated/views.ts.
 */
import { VIEWS } from "../generated/views";
import type { ViewKind } from "../state";
import type { View } from "../view";

export function createView(kind: ViewKind): View {
  const ViewClass: new () => View = VIEWS[kind];
  return new ViewClass();
}
