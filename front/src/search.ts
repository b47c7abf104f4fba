/** Find a token by its text, and pin it. */
import { h } from "./dom";
import { visible } from "./token-text";
import type { ViewProps } from "./view";
import { rowLabelSource } from "./captions";
import type { AxisName } from "./state";
import { say } from "./text";

const MOST = 40;

interface Hit {
  axis: AxisName;
  place: number;
  text: string;
}

export function hits(props: ViewProps, wanted: string): Hit[] {
  const { scene, state } = props;
  const sceneTrace = scene.trace(state.trace);
  const site = sceneTrace.site(state.site);
  const called = rowLabelSource(site, state) === "produced" ? site.produced! : site.rows;
  const sides: [AxisName, typeof called][] = [["row", called]];
  if (!site.rows.equals(site.columns) || called !== site.rows) sides.push(["column", site.columns]);
  const needle = wanted.trim().toLowerCase();
  const found: Hit[] = [];
  if (!needle) return found;
  for (const [axis, { places, stream }] of sides) {
    const texts = sceneTrace.streams.get(stream)!;
    for (let place = 0; place < places.length && found.length < MOST; place++) {
      const at = places[place]!;
      const text = texts.texts[at]!;
      if (text.toLowerCase().includes(needle) || texts.plain[at]!.toLowerCase().includes(needle)) {
        found.push({ axis, place, text });
      }
    }
  }
  return found;
}

export class Search {
  readonly element = h("dialog", { class: "search" });
  private readonly input = h("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  private readonly list = h("ul", { role: "listbox" });
  private found: Hit[] = [];
  private at = 0;
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
    this.found = hits(this.props, this.input.value);
    this.at = 0;
    this.fill();
  }

  private fill(): void {
    const items = this.found.map((hit, index) =>
      h(
        "li",
        { role: "option", "aria-selected": String(index === this.at) },
        [h("bdi", {}, [visible(hit.text)]), h("span", {}, [`${say(hit.axis === "row" ? "text.rows" : "text.columns", this.props.language)} ${hit.place + 1}`])],
        { click: () => this.choose(index) },
      ),
    );
    const none = h("li", { class: "none" }, [say("control.none", this.props.language)]);
    this.list.replaceChildren(...(items.length || !this.input.value ? items : [none]));
    this.list.children[this.at]?.scrollIntoView({ block: "nearest" });
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      this.at = Math.min(this.found.length - 1, Math.max(0, this.at + step));
      this.fill();
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.choose(this.at);
    }
  }

  private choose(index: number): void {
    const hit = this.found[index];
    if (!hit) return;
    this.element.close();
    this.chosen(hit);
  }
}
