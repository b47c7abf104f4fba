/** The toolbar: the controls that the current view has. */
import { rowNaming } from "./captions";
import { choice, menu, withTitle, slider, toggles, type Control, type Option } from "./controls";
import { h } from "./dom";
import { comparedMap } from "./numbers/compare";
import type { SceneSite, SceneTrace } from "./scene";
import { HIDEABLE, type Hidden, type MapReference, type ViewState } from "./state";
import { say } from "./text";
import type { ViewProps } from "./view";
import { unpinIfMoved } from "./views/heads";

const MAX_BUTTONS = 17; // a site with as many heads or more gets a drop-down list instead of buttons

export class Toolbar {
  readonly element = h("div", { class: "toolbar", role: "toolbar" });
  private controlSet = ""; // what decides which controls there are; they are made anew when it changes
  private updates: ((props: ViewProps) => void)[] = [];
  private props!: ViewProps;
  private drawnThreshold = 0; // shown by the slider while the reader has not chosen one

  /** Show the state. Controls are made anew only when others are needed, so that the focus stays where it is. */
  show(props: ViewProps, threshold?: number): void {
    this.props = props;
    this.drawnThreshold = threshold ?? this.drawnThreshold;
    const { state, language, theme } = props;
    const site = props.scene.trace(state.trace).site(state.site);
    const other = state.view === "compare" ? JSON.stringify(comparedMap(props.scene, state).trace) : "";
    const controlSet = [state.view, state.trace, site.name, language, theme, state.span, other].join("\n");
    if (controlSet !== this.controlSet) {
      this.controlSet = controlSet;
      this.updates = [];
      const focus = this.element.contains(document.activeElement)
        ? (document.activeElement as HTMLElement).dataset["key"]
        : undefined;
      this.element.replaceChildren(...this.controls(site));
      if (focus) this.element.querySelector<HTMLElement>(`[data-key="${CSS.escape(focus)}"]`)?.focus();
    }
    for (const update of this.updates) update(props);
  }

  /** The controls that the view of the state has for this site. */
  private controls(site: SceneSite): HTMLElement[] {
    const { view, span } = this.props.state;
    const parts: (HTMLElement | null)[] = [];
    if (this.props.scene.traces.length > 1 && view !== "compare") parts.push(this.traceControl());
    const perHead = view === "flow" && span === "layers"; // heads have one colour each there, and are switched on and off
    const across = view === "flow" && span === "all" && this.kinds() < 2; // all layers are shown, so that there is none to choose
    if (view !== "heads" && !across) parts.push(this.siteControl());
    if (view !== "heads" && !perHead && site.heads > 1) parts.push(this.shownHeadControl(site));
    if (view === "compare") parts.push(...this.comparedMapControls());
    if (view === "highlight") parts.push(this.depthControl(), this.axisControl());
    if (perHead && site.heads > 1) parts.push(this.headToggles(site));
    if (view === "flow") parts.push(this.spanControl());
    if (view !== "heads" && view !== "overlay" && !site.long) parts.push(this.unitControl(), this.hideControl());
    if (view !== "flow") parts.push(this.scaleControl());
    if (view === "flow" && !site.long) parts.push(this.thresholdControl());
    if (site.produced && view !== "heads") parts.push(this.rowLabelControl());
    return parts.filter((part): part is HTMLElement => part !== null);
  }

  /** How many kinds of attention the trace has: encoder, decoder, cross. */
  private kinds(): number {
    const { sites } = this.props.scene.trace(this.props.state.trace);
    return new Set(sites.filter((site) => site.kind !== "aggregate").map((site) => site.kind)).size;
  }

  private say(key: string): string {
    return say(key, this.props.language);
  }

  private change(changes: Partial<ViewState>): void {
    this.props.change(changes);
  }

  /** Let the control follow the state; its element. */
  private follow<Value>(control: Control<Value>, value: (props: ViewProps) => Value): HTMLElement {
    this.updates.push((props) => control.update(value(props)));
    return control.element;
  }

  /** Options whose texts are the sentences `name.value`. */
  private options<Value extends string>(name: string, values: readonly Value[]): Option<Value>[] {
    return values.map((value) => ({ value, text: this.say(`${name}.${value}`) }));
  }

  private traceControl(): HTMLElement {
    const { traces } = this.props.scene;
    const texts = traces.map(({ name }, index) => name || String(index + 1));
    const chosen = (trace: number): void => this.change({ trace, place: null, ...this.sameSite(trace) });
    if (traces.length === 2) {
      const control = choice(texts.map((text, value) => ({ value, text })), chosen, "trace");
      return withTitle(this.say("control.trace"), this.follow(control, ({ state }) => state.trace));
    }
    const options = texts.map((text, index) => ({ value: String(index), text }));
    const control = menu([{ title: "", options }], (value) => chosen(Number(value)), "trace");
    return withTitle(this.say("control.trace"), this.follow(control, ({ state }) => String(state.trace)));
  }

  /** Keep the site and head if the other trace has them too. */
  private sameSite(trace: number): Partial<ViewState> {
    const { scene, state } = this.props;
    const site = scene.trace(trace).sites.find(({ name }) => name === state.site);
    if (!site) return { site: null, head: null };
    return state.head !== null && state.head >= site.heads ? { head: null } : {};
  }

  /** The sites of a trace, grouped by kind of attention. */
  private siteGroups(sceneTrace: SceneTrace): { title: string; options: Option<string>[] }[] {
    const kinds = [...new Set(sceneTrace.sites.map((site) => site.kind))];
    return kinds.map((kind) => ({
      title: this.say(`kind.${kind}`),
      options: sceneTrace.sites
        .filter((site) => site.kind === kind)
        .map(({ name, header }) => ({
          value: name,
          text: header.layer === null ? name : `${header.layer} · ${name}`,
        })),
    }));
  }

  private siteControl(): HTMLElement {
    const { scene, state } = this.props;
    const sceneTrace = scene.trace(state.trace);
    const chosen = (name: string): void => {
      const site = sceneTrace.site(name);
      const { head } = this.props.state;
      const kept = head !== null && head < site.heads ? head : null;
      this.change({ site: name, head: kept, ...unpinIfMoved(this.props, site) });
    };
    const control = menu(this.siteGroups(sceneTrace), chosen, "site");
    return withTitle(this.say("control.layer"), this.follow(control, (props) => props.scene.trace(props.state.trace).site(props.state.site).name));
  }

  private shownHeadControl(site: SceneSite): HTMLElement {
    const mean = { value: null, text: this.say("control.mean") };
    const chosen = (head: number | null): void => this.change({ head });
    return withTitle(this.say("control.head"), this.headControl(site, mean, chosen, ({ state }) => state.head, "head"));
  }

  /** A choice of one head or the mean: buttons for few heads of the main map, else a list. */
  private headControl(
    site: SceneSite,
    mean: Option<null>,
    chosen: (head: number | null) => void,
    value: (props: ViewProps) => number | null,
    key: string,
  ): HTMLElement {
    const heads = Array.from({ length: site.heads }, (_, head) => ({ value: head, text: String(site.number(head)) }));
    if (site.heads < MAX_BUTTONS && key === "head") {
      return this.follow(choice<number | null>([mean, ...heads], chosen, key), value);
    }
    const options = [mean, ...heads].map(({ value, text }) => ({ value: String(value ?? ""), text }));
    const control = menu([{ title: "", options }], (text) => chosen(text === "" ? null : Number(text)), key);
    return this.follow(control, (props) => String(value(props) ?? ""));
  }

  /** The trace, site and head that are compared with. */
  private comparedMapControls(): HTMLElement[] {
    const { scene, language } = this.props;
    const now = (): MapReference => comparedMap(this.props.scene, this.props.state);
    const set = (changes: Partial<MapReference>): void => this.change({ other: { ...now(), ...changes } });
    const title = say("control.other", language);
    const sceneTrace = scene.trace(now().trace);
    const parts: HTMLElement[] = [];
    if (scene.traces.length > 1 && !scene.header.findings) {
      const options = scene.traces.map(({ name }, value) => ({ value, text: name || String(value + 1) }));
      const control = choice(options, (trace) => set({ trace, site: null, head: null }), "other.trace");
      parts.push(withTitle(this.say("control.trace"), this.follow(control, () => now().trace)));
    }
    const sites = menu(this.siteGroups(sceneTrace), (site) => set({ site, head: null }), "other.site");
    const element = this.follow(sites, () => scene.trace(now().trace).site(now().site).name);
    const mean = { value: null, text: this.say("control.mean") };
    const heads = this.headControl(sceneTrace.site(now().site), mean, (head) => set({ head }), () => now().head, "other.head");
    return [...parts, withTitle(title, element, [heads])];
  }

  private depthControl(): HTMLElement {
    const control = choice(this.options("depth", ["head", "layer", "all"] as const), (depth) => this.change({ depth }), "depth");
    return withTitle(this.say("control.depth"), this.follow(control, ({ state }) => state.depth));
  }

  private axisControl(): HTMLElement {
    const { language } = this.props;
    const options = (["row", "column"] as const).map((value) => ({ value, text: say(`axis.${value}`, language) }));
    const control = choice(options, (axis) => this.change({ axis, ...this.unpinIfTurned(axis) }), "axis");
    return withTitle(say("control.axis", language), this.follow(control, ({ state }) => state.axis));
  }

  /** Unpin the token when the direction changes, unless rows and columns are the same tokens. */
  private unpinIfTurned(axis: ViewState["axis"]): { place?: null } {
    const { scene, state } = this.props;
    const site = scene.trace(state.trace).site(state.site);
    return axis === state.axis || site.rows.equals(site.columns) ? {} : { place: null };
  }

  private spanControl(): HTMLElement {
    const control = choice(this.options("span", ["layers", "all", "time"] as const), (span) => this.changeSpan(span), "span");
    return withTitle(this.say("control.span"), this.follow(control, ({ state }) => state.span));
  }

  /** Change the span, and the site if the span needs another: self-attention for all layers, cross-attention for source to output. */
  private changeSpan(span: ViewState["span"]): void {
    const { scene, state } = this.props;
    const { sites } = scene.trace(state.trace);
    const now = scene.trace(state.trace).site(state.site);
    const fits = (site: SceneSite): boolean =>
      span === "all" ? site.rows.equals(site.columns) : span === "time" ? site.kind === "cross" : true;
    const site = fits(now) ? now : [...sites].reverse().find(fits);
    const moved = site && site !== now ? { site: site.name, head: null, place: null } : {};
    this.change({ span, threshold: null, ...moved });
  }

  /** Buttons in the colours of the heads, which switch the lines of each head on and off. */
  private headToggles(site: SceneSite): HTMLElement {
    const { colours } = this.props;
    const options = Array.from({ length: site.heads }, (_, head) => ({
      value: head,
      text: String(site.number(head)),
      colour: colours.head(head),
    }));
    const every = options.map(({ value }) => value);
    const shown = ({ state }: ViewProps): number[] => (state.head === null ? (state.heads ?? every) : [state.head]);
    const toggled = (head: number): void => {
      const on = shown(this.props);
      // while all heads are on, a click shows that head alone
      const heads = on.length === every.length ? [head] : on.includes(head) ? on.filter((other) => other !== head) : [...on, head];
      const full = heads.length === every.length || heads.length === 0;
      this.change({ head: null, heads: full ? null : heads.sort((one, two) => one - two) });
    };
    const control = toggles(options, toggled, "heads");
    const element = this.follow(control, shown);
    element.classList.add("coloured");
    const all = h("button", { type: "button", class: "quiet", "data-key": "heads.all" }, [say("control.every", this.props.language)], {
      click: () => this.change({ head: null, heads: null }),
    });
    return withTitle(this.say("control.head"), element, [all]);
  }

  private unitControl(): HTMLElement {
    const control = choice(this.options("unit", ["piece", "word", "sentence"] as const), (unit) => this.change({ unit }), "unit");
    return withTitle(this.say("control.unit"), this.follow(control, ({ state }) => state.unit));
  }

  private hideControl(): HTMLElement {
    const toggled = (name: Hidden): void => {
      const { hide } = this.props.state;
      this.change({ hide: HIDEABLE.filter((other) => (other === name) !== hide.includes(other)) });
    };
    const control = toggles(this.options("hide", HIDEABLE), toggled, "hide");
    return withTitle(this.say("control.hide"), this.follow(control, ({ state }) => state.hide));
  }

  private scaleControl(): HTMLElement {
    const control = choice(this.options("scale", ["linear", "log", "row"] as const), (scale) => this.change({ scale }), "scale");
    return withTitle(this.say("control.scale"), this.follow(control, ({ state }) => state.scale));
  }

  private thresholdControl(): HTMLElement {
    const control = slider((threshold) => this.change({ threshold }), "threshold");
    const auto = h("button", { type: "button", class: "quiet", "data-key": "threshold.auto" }, [say("control.auto", this.props.language)], {
      click: () => this.change({ threshold: null }),
    });
    const value = ({ state }: ViewProps): number => state.threshold ?? this.drawnThreshold;
    return withTitle(this.say("control.threshold"), this.follow(control, value), [auto]);
  }

  private rowLabelControl(): HTMLElement {
    const control = choice(this.options("label", ["read", "produced"] as const), (label) => this.change({ label }), "label");
    const value = ({ scene, state }: ViewProps): "read" | "produced" => rowNaming(scene.trace(state.trace).site(state.site), state);
    return withTitle(this.say("control.label"), this.follow(control, value));
  }
}
