/** The app: holds the scene and the state, draws the view of the state, and fills the elements around it. */
import { CannotDraw } from "./cannot-draw";
import { colours } from "./colours";
import { h, set } from "./dom";
import { Findings } from "./findings";
import { KINDS } from "./generated/kinds";
import { changesForKey } from "./keyboard";
import { requiredBlobs } from "./numbers/required-blobs";
import { Scene, type Blobs } from "./scene";
import type { SceneHeader } from "./scene-header";
import { Search } from "./search";
import { fromHash, toHash, DEFAULT_STATE, type Language, type ViewState, type Theme, type ViewKind } from "./state";
import style from "./style.css";
import { say, setSentences, type Sentences } from "./text";
import { Toolbar } from "./toolbar";
import { Tooltip } from "./tooltip";
import { availableViews, validState } from "./valid-state";
import type { RequestWindow, View, ViewProps } from "./view";
import { createView } from "./views/registry";

/** The header of a page or widget: what Python sends as JSON. */
export interface Header {
  scene: SceneHeader;
  state: Partial<ViewState>;
  words: Sentences;
}

export interface Options {
  /** Keep the state in the address of the page, so that it can be linked. */
  links?: boolean;
  /** Called after each change that the reader makes. */
  changed?: (state: ViewState) => void;
  /** Gets exact weights of a window of a long map. */
  requestWindow?: RequestWindow;
}

const LONGEST_TITLE = 90; // characters of each text

export class App {
  readonly scene: Scene;
  private readonly initial: ViewState;
  private state: ViewState;
  private readonly views = new Map<ViewKind, View>();
  private readonly tooltip = new Tooltip();
  private readonly toolbar = new Toolbar();
  private readonly nav = h("nav");
  private readonly tools = h("div", { class: "tools" });
  private readonly title = h("h1", { dir: "auto" });
  private readonly stage = h("div", { class: "stage" });
  private readonly caption = h("figcaption", { "aria-live": "polite", dir: "auto" });
  private readonly help = h("dialog", { class: "help" });
  private readonly findings: Findings | null;
  private readonly search = new Search(({ axis, place }) => this.pinFound(axis, place));
  private readonly dark = window.matchMedia("(prefers-color-scheme: dark)");
  private drawCount = 0; // an older drawing that finishes loading late must not replace a newer one
  private chrome = ""; // language and theme that buttons and tabs were made for

  constructor(
    private readonly root: HTMLElement,
    header: Header,
    blobs: Blobs,
    private readonly options: Options = {},
  ) {
    setSentences(header.words);
    this.scene = new Scene(header.scene, blobs);
    this.findings = header.scene.findings ? new Findings(header.scene.findings) : null;
    this.initial = { ...DEFAULT_STATE, ...header.state };
    this.state = options.links ? fromHash(location.hash, this.initial) : this.initial;
    this.build();
    this.listen();
    void this.show();
  }

  /** The title of a scene that has none of its own: the source text and what was generated from it. */
  private textOfTrace(trace: number): string {
    const sceneTrace = this.scene.trace(trace);
    const cross = sceneTrace.sites.find((site) => site.columns.stream !== site.rows.stream) ?? sceneTrace.sites[0]!;
    const streams = [...new Set([cross.columns.stream, cross.rows.stream])].map((name) => sceneTrace.streams.get(name)!);
    const texts = streams.filter((stream) => stream.named).map((stream) => stream.beginning(LONGEST_TITLE));
    return texts.filter((text) => text).join(" → ") || "regard";
  }

  private build(): void {
    const sheet = h("style");
    sheet.textContent = style;
    const figure = h("figure", {}, [this.stage, this.caption]);
    const top = h("header", {}, [h("div", { class: "mast" }, [this.title, this.tools]), this.nav]);
    const work = h("div", { class: "work" }, [this.toolbar.element, figure]);
    const body = this.findings ? h("div", { class: "report" }, [this.findings.element, work]) : work;
    this.root.classList.add("regard");
    this.root.replaceChildren(sheet, top, h("div", { class: "body" }, [body]), this.tooltip.element, this.help, this.search.element);
  }

  private listen(): void {
    const keys: HTMLElement | Document = this.options.links ? document : this.root;
    keys.addEventListener("keydown", (event) => this.key(event as KeyboardEvent));
    this.dark.addEventListener("change", () => void this.show());
    if (this.options.links) {
      window.addEventListener("hashchange", () => this.readAddress());
      window.addEventListener("popstate", () => this.readAddress());
    }
    let wide: number | null = null; // asking for the width now would force the browser to lay out an unfinished page
    new ResizeObserver(() => {
      const before = wide;
      wide = this.root.clientWidth;
      if (before !== null && before !== wide) this.views.get(this.state.view)?.resize?.();
    }).observe(this.root);
    this.help.addEventListener("click", (event) => event.target === this.help && this.help.close());
  }

  /** Follow an address that was typed, or the back button. */
  private readAddress(): void {
    const state = fromHash(location.hash, this.initial);
    if (toHash(state) === toHash(this.state)) return;
    this.state = state;
    void this.show();
  }

  private get language(): Language {
    return this.state.language ?? (/^zh/i.test(navigator.language) ? "zh" : "en");
  }

  private get theme(): Theme {
    return this.state.theme ?? (this.dark.matches ? "dark" : "light");
  }

  private propsFor(state: ViewState): ViewProps {
    const { language, theme } = this;
    return {
      scene: this.scene,
      state: { ...state, language, theme },
      language,
      theme,
      colours: colours(theme),
      tooltip: this.tooltip,
      requestWindow: this.options.requestWindow ?? null,
      change: (changes) => this.change(changes),
    };
  }

  /** Merge changes into the state, tell the address and the host, and draw. */
  change(changes: Partial<ViewState>): void {
    const view = this.state.view;
    this.state = validState(this.scene, { ...this.state, ...changes });
    if (this.options.links) {
      const hash = toHash(this.state, this.initial);
      const address = hash === "#" ? location.pathname + location.search : hash;
      if (this.state.view !== view) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    }
    this.options.changed?.(this.state);
    void this.show();
  }

  /** Show a state that the host sets; the host is not told again. */
  set(state: Partial<ViewState>): void {
    const next = { ...DEFAULT_STATE, ...state };
    if (toHash(next) === toHash(this.state)) return;
    this.state = next;
    void this.show();
  }

  /** Draw the state, after loading the maps that it needs. */
  private async show(): Promise<void> {
    const drawCount = ++this.drawCount;
    this.state = validState(this.scene, this.state);
    const props = this.propsFor(this.state);
    this.showChrome(props);
    this.findings?.show(props);
    this.toolbar.show(props);
    const { view } = props.state;
    const missing = requiredBlobs(this.scene, props.state).filter((blob) => !this.scene.has(blob));
    if (missing.length || view === "heads") {
      // most maps are there within a frame or two; fading for them would only flicker
      const slow = setTimeout(() => this.stage.classList.add("waiting"), 120);
      await this.scene.load(missing);
      if (view === "heads") {
        await this.scene.loadThumbs(this.scene.trace(props.state.trace).sites);
      }
      clearTimeout(slow);
      if (drawCount !== this.drawCount) return;
    }
    this.stage.classList.remove("waiting");
    this.draw(props);
    this.scene.tidy();
  }

  /** Draw the view, or say why this state cannot be drawn. */
  private draw(props: ViewProps): void {
    const kind = props.state.view;
    const view = this.views.get(kind) ?? createView(kind);
    this.views.set(kind, view);
    if (this.stage.firstChild !== view.element) this.stage.replaceChildren(view.element);
    this.tooltip.hide();
    try {
      this.caption.textContent = this.drawOrUnpin(view, props);
      this.toolbar.show(props, view.threshold);
    } catch (error) {
      if (!(error instanceof CannotDraw)) throw error;
      this.stage.replaceChildren(h("p", { class: "refusal", role: "alert" }, [say(error.key, props.language)]));
      this.caption.textContent = "";
    }
    if (!this.root.dataset["ready"]) performance.mark("regard:first-picture");
    this.root.dataset["ready"] = String(this.drawCount);
  }

  /** Draw; if the pinned token is hidden now, draw without a pinned token. */
  private drawOrUnpin(view: View, props: ViewProps): string {
    try {
      return view.show(props);
    } catch (error) {
      if (!(error instanceof CannotDraw) || error.key !== "refuse.place") throw error;
      return view.show({ ...props, state: { ...props.state, place: null } });
    }
  }

  /** Update title, tabs and buttons; they are made anew only when language or theme change. */
  private showChrome(props: ViewProps): void {
    const { language, theme, state } = props;
    set(this.root, "data-theme", theme);
    set(this.root, "lang", language === "zh" ? "zh-Hans" : "en");
    if (this.options.links) {
      document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
      document.documentElement.dataset["theme"] = theme;
    }
    this.title.textContent = this.scene.header.title || this.textOfTrace(state.trace);
    const chrome = [language, theme].join();
    if (chrome !== this.chrome) this.fillChrome(language, theme);
    this.chrome = chrome;
    for (const button of this.nav.children) {
      set(button, "aria-current", (button as HTMLElement).dataset["key"] === `view.${state.view}` ? "page" : null);
    }
  }

  private fillChrome(language: Language, theme: Theme): void {
    const word = (key: string): string => say(key, language);
    const button = (key: string, text: string, label: string, click: () => void): HTMLElement =>
      h("button", { type: "button", "data-key": key, title: label, "aria-label": label }, [text], { click });
    const other: Theme = theme === "dark" ? "light" : "dark";
    this.nav.setAttribute("aria-label", say("page.views", language));
    this.nav.replaceChildren(
      ...availableViews(this.scene).map((view) =>
        h("button", { type: "button", "data-key": `view.${view}` }, [word(`view.${view}`)], { click: () => this.open(view) }),
      ),
    );
    this.tools.replaceChildren(
      button("search", "/", word("control.search"), () => this.search.open(this.propsFor(this.state))),
      button("theme", theme === "dark" ? "☀" : "☾", `${word("control.theme")}: ${word(`theme.${other}`)}`, () => this.change({ theme: other })),
      button("language", language === "zh" ? "EN" : "中", word("control.language"), () => this.change({ language: language === "zh" ? "en" : "zh" })),
      button("help", "?", word("control.help"), () => this.openHelp()),
      button("reset", "↺", word("control.reset"), () => this.change({ ...this.initial, language: this.state.language, theme: this.state.theme })),
    );
  }

  /** Open a tab. A comparison starts with two different heads, or sites, so that there is something to compare. */
  private open(view: ViewKind): void {
    const { scene, state } = this;
    const two = scene.traces.length > 1 && !this.findings; // a report shows several texts, which are not compared with one another
    if (view !== "compare" || state.other || two) return this.change({ view });
    const { trace } = state;
    const { sites } = scene.trace(trace);
    const site = scene.trace(trace).site(state.site);
    const head = state.head ?? (site.heads > 1 ? 0 : null);
    const next = sites.find((other) => other !== site && other.rows.equals(site.rows) && other.columns.equals(site.columns));
    const other = site.heads > 1
      ? { trace, site: site.name, head: (head! + 1) % site.heads }
      : { trace, site: (next ?? site).name, head: null };
    this.change({ view, site: site.name, head, other });
  }

  /** Open the list of keys and gestures: one item for each sentence. */
  private openHelp(): void {
    const { language } = this;
    const more = [say("help.more", language), ...(this.findings ? [say("help.findings", language)] : [])];
    const keys = [say("help.keys", language, { views: KINDS.length }), ...more].join(" ");
    const parts = keys.split(/(?<=[.。]) */).filter((part) => part.length > 0);
    const close = h("button", { type: "button" }, [say("control.close", language)], { click: () => this.help.close() });
    this.help.replaceChildren(
      h("h2", {}, [say("help.title", language)]),
      h("ul", {}, parts.map((part) => h("li", {}, [part]))),
      close,
    );
    if (!this.help.open) this.help.showModal();
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || target.isContentEditable;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.help.open || this.search.element.open) return;
    if (typing && event.key !== "Escape") return;
    const changes = changesForKey(event.key, this.propsFor(this.state), {
      search: () => this.search.open(this.propsFor(this.state)),
      help: () => this.openHelp(),
      close: () => this.tooltip.hide(),
      views: () => availableViews(this.scene),
    });
    if (changes === null) return;
    event.preventDefault();
    if (changes.view === "compare") this.open("compare");
    else if (Object.keys(changes).length) this.change(changes);
    if (changes.finding !== undefined) this.findings?.reveal();
  }

  /** Pin a token that was searched for, and bring it into sight once it is drawn. */
  private pinFound(axis: "row" | "column", place: number): void {
    const { view } = this.state;
    this.change({ axis, place, view: view === "heads" ? "heatmap" : view });
    const { drawCount } = this;
    const reveal = (): void => {
      if (this.root.dataset["ready"] === String(drawCount)) this.views.get(this.state.view)?.reveal?.(axis, place);
      else if (drawCount === this.drawCount) setTimeout(reveal, 30);
    };
    reveal();
  }
}
