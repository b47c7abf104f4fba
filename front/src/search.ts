/** The dialog that finds a token by its text and pins it. */
import { rowNaming } from "./captions";
import { h } from "./dom";
import type { AxisName } from "./state";
import { say } from "./text";
import { visible } from "./token-text";
import type { ViewProps } from "./view";

const MAX_RESULTS = 40;

interface Hit {
  axis: AxisName;
  place: number;
  text: string;
}

/** The rows and columns whose token contains the text, in upper or lower case. */
export function findTokens(props: ViewProps, query: string): Hit[] {
  const { scene, state } = props;
  const sceneTrace = scene.trace(state.trace);
  const site = sceneTrace.site(state.site);
  const labelAxis = rowNaming(site, state) === "produced" ? site.produced! : site.rows;
  const sides: [AxisName, typeof labelAxis][] = [["row", labelAxis]];
  if (!site.rows.equals(site.columns) || labelAxis !== site.rows) sides.push(["column", site.columns]);
  const needle = query.trim().toLowerCase();
  const hits: Hit[] = [];
  if (!needle) return hits;
  for (const [axis, { places, stream }] of sides) {
    const texts = sceneTrace.streams.get(stream)!;
    for (let place = 0; place < places.length && hits.length < MAX_RESULTS; place++) {
      const at = places[place]!;
      const text = texts.texts[at]!;
      if (text.toLowerCase().includes(needle) || texts.plain[at]!.toLowerCase().includes(needle)) {
        hits.push({ axis, place, text });
      }
    }
  }
  return hits;
}

export class Search {
  readonly element = h("dialog", { class: "search" });
  private readonly input = h("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  private readonly list = h("ul", { role: "listbox" });
  private hits: Hit[] = [];
  private selected = 0;
  private props!: ViewProps;

  constructor(private readonly chosen: (hit: Hit) => void) {
    this.element.append(this.input, this.list);
    this.input.addEventListener("input", () => this.find());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("click", (event) => event.target === this.element && this.element.close());
  }

  open(props: ViewProps): void {
    this.props = props;
    const label = say("search.label", props.language);
    this.input.placeholder = label;
    this.input.setAttribute("aria-label", label);
    this.input.value = "";
    this.find();
    this.element.showModal();
    this.input.focus();
  }

  private find(): void {
    this.hits = findTokens(this.props, this.input.value);
    this.selected = 0;
    this.fill();
  }

  /** Show the hits, the selected one marked. */
  private fill(): void {
    const items = this.hits.map((hit, index) =>
      h(
        "li",
        { role: "option", "aria-selected": String(index === this.selected) },
        [h("bdi", {}, [visible(hit.text)]), h("span", {}, [`${say(hit.axis === "row" ? "text.rows" : "text.columns", this.props.language)} ${hit.place + 1}`])],
        { click: () => this.choose(index) },
      ),
    );
    const none = h("li", { class: "none" }, [say("control.none", this.props.language)]);
    this.list.replaceChildren(...(items.length || !this.input.value ? items : [none]));
    this.list.children[this.selected]?.scrollIntoView({ block: "nearest" });
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      this.selected = Math.min(this.hits.length - 1, Math.max(0, this.selected + step));
      this.fill();
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.choose(this.selected);
    }
  }

  private choose(index: number): void {
    const hit = this.hits[index];
    if (!hit) return;
    this.element.close();
    this.chosen(hit);
  }
}
