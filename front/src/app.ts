/** The front end: a scene, the state that is looked at, and the elements around the picture. */
import { colours } from "./colours";
import { h, set } from "./dom";
import { Findings } from "./findings";
import type { SceneHeader } from "./scene-header";
import { KINDS } from "./generated/kinds";
import { changesForKey } from "./keyboard";
import type { RequestWindow, View, ViewProps } from "./view";
import { requiredBlobs } from "./numbers/required-blobs";
import { CannotDraw } from "./cannot-draw";
import { Scene, type Blobs } from "./scene";
import { Search } from "./search";
import { fromHash, toHash, DEFAULT_STATE, type Language, type State, type Theme } from "./state";
import style from "./style.css";
import { say, setSentences, type Sentences } from "./text";
import { Tooltip } from "./tooltip";
import { Toolbar } from "./toolbar";
import { valid, views } from "./valid-state";
import { createView } from "./views/registry";

export interface Header {
  scene: SceneHeader;
  state: Partial<State>;
  words: Sentences;
}

export interface Options {
  /** Whether the address of the page says what is looked at. */
  links?: boolean;
  /** Called when the reader looks at something else. */
  changed?: (state: State) => void;
  /** Gives exact parts of long maps. */
  ask?: RequestWindow;
}

const MOST_TITLE = 90;

export class App {
  readonly scene: Scene;
  private readonly usual: State;
  private state: State;
  private readonly drawings = new Map<State["view"], View>();
  private readonly tooltip = new Tooltip();
  private readonly toolbar = new Toolbar();
  private readonly nav = h("nav");
  private readonly tools = h("div", { class: "tools" });
  private readonly title = h("h1", { dir: "auto" });
  private readonly stage = h("div", { class: "stage" });
  private readonly caption = h("figcaption", { "aria-live": "polite", dir: "auto" });
  private readonly help = h("dialog", { class: "help" });
  private readonly findings: Findings | null;
  private readonly search = new Search(({ axis, place }) => this.found(axis, place));
  private readonly dark = window.matchMedia("(prefers-color-scheme: dark)");
  private turn = 0;
  private chrome = "";

  constructor(
    private readonly root: HTMLElement,
    header: Header,
    blobs: Blobs,
    private readonly options: Options = {},
  ) {
    setSentences(header.words);
    this.scene = new Scene(header.scene, blobs);
    this.findings = header.scene.findings ? new Findings(header.scene.findings) : null;
    this.usual = { ...DEFAULT_STATE, ...header.state };
    this.state = options.links ? fromHash(location.hash, this.usual) : this.usual;
    this.build();
    this.listen();
    void this.show();
  }

  /** The text that was read, and what was produced from it, where a scene has no title. */
  private text(trace: number): string {
    const sceneTrace = this.scene.trace(trace);
    const cross = sceneTrace.sites.find((site) => site.columns.stream !== site.rows.stream) ?? sceneTrace.sites[0]!;
    const streams = [...new Set([cross.columns.stream, cross.rows.stream])].map((name) => sceneTrace.streams.get(name)!);
    const texts = streams.filter((stream) => stream.named).map((stream) => stream.beginning(MOST_TITLE));
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
      window.addEventListener("hashchange", () => this.reread());
      window.addEventListener("popstate", () => this.reread());
    }
    let wide: number | null = null; // to ask for it now would lay out a page that is not built yet
    new ResizeObserver(() => {
      const before = wide;
      wide = this.root.clientWidth;
      if (before !== null && before !== wide) this.drawings.get(this.state.view)?.resize?.();
    }).observe(this.root);
    this.help.addEventListener("click", (event) => event.target === this.help && this.help.close());
  }

  private reread(): void {
    const state = fromHash(location.hash, this.usual);
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

  private props(state: State): ViewProps {
    const { language, theme } = this;
    return {
      scene: this.scene,
      state: { ...state, language, theme },
      language,
      theme,
      colours: colours(theme),
      tooltip: this.tooltip,
      ask: this.options.ask ?? null,
      change: (changes) => this.change(changes),
    };
  }

  /** ViewProps at something else. */
  change(changes: Partial<State>): void {
    const view = this.state.view;
    this.state = valid(this.scene, { ...this.state, ...changes });
    if (this.options.links) {
      const hash = toHash(this.state, this.usual);
      const address = hash === "#" ? location.pathname + location.search : hash;
      if (this.state.view !== view) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    }
    this.options.changed?.(this.state);
    void this.show();
  }

  /** ViewProps at what someone else says, without telling them. */
  set(state: Partial<State>): void {
    const next = { ...DEFAULT_STATE, ...state };
    if (toHash(next) === toHash(this.state)) return;
    this.state = next;
    void this.show();
  }

  private async show(): Promise<void> {
    const turn = ++this.turn;
    this.state = valid(this.scene, this.state);
    const props = this.props(this.state);
    this.showChrome(props);
    this.findings?.show(props);
    this.toolbar.show(props);
    const { view } = props.state;
    const wanted = requiredBlobs(this.scene, props.state).filter((blob) => !this.scene.has(blob));
    if (wanted.length || view === "heads") {
      const slow = setTimeout(() => this.stage.classList.add("waiting"), 120);
      await this.scene.load(wanted);
      if (view === "heads") {
        await this.scene.loadThumbs(this.scene.trace(props.state.trace).sites);
      }
      clearTimeout(slow);
      if (turn !== this.turn) return;
    }
    this.stage.classList.remove("waiting");
    this.draw(props);
    this.scene.tidy();
  }

  private draw(props: ViewProps): void {
    const { view } = props.state;
    const drawing = this.drawings.get(view) ?? createView(view);
    this.drawings.set(view, drawing);
    if (this.stage.firstChild !== drawing.element) this.stage.replaceChildren(drawing.element);
    this.tooltip.hide();
    try {
      this.caption.textContent = this.drawn(drawing, props);
      this.toolbar.show(props, drawing.threshold);
    } catch (error) {
      if (!(error instanceof CannotDraw)) throw error;
      this.stage.replaceChildren(h("p", { class: "refusal", role: "alert" }, [say(error.key, props.language)]));
      this.caption.textContent = "";
    }
    if (!this.root.dataset["ready"]) performance.mark("regard:first-picture");
    this.root.dataset["ready"] = String(this.turn);
  }

  /** A pinned token that is hidden now is not shown as pinned. */
  private drawn(drawing: View, props: ViewProps): string {
    try {
      return drawing.show(props);
    } catch (error) {
      if (!(error instanceof CannotDraw) || error.key !== "refuse.place") throw error;
      return drawing.show({ ...props, state: { ...props.state, place: null } });
    }
  }

  /** The parts around the picture that change with language, theme and view. */
  private showChrome(props: ViewProps): void {
    const { language, theme, state } = props;
    set(this.root, "data-theme", theme);
    set(this.root, "lang", language === "zh" ? "zh-Hans" : "en");
    if (this.options.links) {
      document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
      document.documentElement.dataset["theme"] = theme;
    }
    this.title.textContent = this.scene.header.title || this.text(state.trace);
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
      ...views(this.scene).map((view) =>
        h("button", { type: "button", "data-key": `view.${view}` }, [word(`view.${view}`)], { click: () => this.open(view) }),
      ),
    );
    this.tools.replaceChildren(
      button("search", "/", word("control.search"), () => this.search.open(this.props(this.state))),
      button("theme", theme === "dark" ? "☀" : "☾", `${word("control.theme")}: ${word(`theme.${other}`)}`, () => this.change({ theme: other })),
      button("language", language === "zh" ? "EN" : "中", word("control.language"), () => this.change({ language: language === "zh" ? "en" : "zh" })),
      button("help", "?", word("control.help"), () => this.openHelp()),
      button("reset", "↺", word("control.reset"), () => this.change({ ...this.usual, language: this.state.language, theme: this.state.theme })),
    );
  }

  /** A view; one that compares begins with two different heads or sites. */
  private open(view: State["view"]): void {
    const { scene, state } = this;
    const two = scene.traces.length > 1 && !this.findings; // the texts of a report are not compared
    if (view !== "compare" || state.other || two) return this.change({ view });
    const { trace } = state;
    const { sites } = scene.trace(trace);
    const site = scene.trace(trace).site(state.site);
    const head = state.head ?? (site.heads > 1 ? 0 : null);
    const next = sites.find((each) => each !== site && each.rows.equals(site.rows) && each.columns.equals(site.columns));
    const other = site.heads > 1
      ? { trace, site: site.name, head: (head! + 1) % site.heads }
      : { trace, site: (next ?? site).name, head: null };
    this.change({ view, site: site.name, head, other });
  }

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
    const changes = changesForKey(event.key, this.props(this.state), {
      search: () => this.search.open(this.props(this.state)),
      help: () => this.openHelp(),
      close: () => this.tooltip.hide(),
      views: () => views(this.scene),
    });
    if (changes === null) return;
    event.preventDefault();
    if (changes.view === "compare") this.open("compare");
    else if (Object.keys(changes).length) this.change(changes);
    if (changes.finding !== undefined) this.findings?.reveal();
  }

  private found(axis: "row" | "column", place: number): void {
    const { view } = this.state;
    this.change({ axis, place, view: view === "heads" ? "heatmap" : view });
    const { turn } = this;
    const reveal = (): void => {
      if (this.root.dataset["ready"] === String(turn)) this.drawings.get(this.state.view)?.reveal?.(axis, place);
      else if (turn === this.turn) setTimeout(reveal, 30);
    };
    reveal();
  }
}
