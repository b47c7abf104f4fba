/** The findings of a report: a list beside the picture; a click opens the picture of one. */
import { checkName, joinSentences, siteSentence } from "./captions";
import { h, set } from "./dom";
import type { FindingHeader, SayingHeader, Severity } from "./scene-header";
import type { ViewProps } from "./view";
import type { Scene } from "./scene";
import type { Language, State } from "./state";
import { say } from "./text";

export const SEVERITIES: readonly Severity[] = ["bug", "warning", "observation"];
// shapes, so that nobody needs the colours
export const SIGNS: Record<Severity, string> = { bug: "■", warning: "▲", observation: "○" };

/** What is said of a finding in a language, or in the first one that it has. */
export function textIn(finding: FindingHeader, language: Language): SayingHeader {
  return finding.said[language] ?? Object.values(finding.said)[0]!;
}

/** The changes that open a finding with its picture (FORMAT.md, section 6). */
export function opened(scene: Scene, index: number): Partial<State> {
  const { drawing, trace } = scene.header.findings![index]!;
  if (!drawing) return { finding: index };
  const byColumn = drawing.columns.length > 0 && drawing.rows.length === 0;
  const places = byColumn ? drawing.columns : drawing.rows;
  return {
    view: drawing.view,
    trace,
    site: drawing.site,
    head: drawing.head,
    heads: null,
    axis: byColumn ? "column" : "row",
    place: places[0] ?? null,
    span: "layers",
    depth: drawing.head === null ? "layer" : "head",
    label: null,
    threshold: null,
    other: null,
    finding: index,
  };
}

/** The finding after or before the open one, opened. */
export function stepFinding(props: ViewProps, by: number): Partial<State> {
  const count = props.scene.header.findings?.length ?? 0;
  if (!count) return {};
  const { finding } = props.state;
  const next = finding === null ? (by > 0 ? 0 : count - 1) : finding + by;
  return next < 0 || next >= count ? {} : opened(props.scene, next);
}

export class Findings {
  readonly element = h("section", { class: "findings" });
  private items: { item: HTMLElement; button: HTMLElement; detail: HTMLElement }[] = [];
  private props!: ViewProps;
  private language: Language | null = null;

  constructor(private readonly findings: FindingHeader[]) {}

  show(props: ViewProps): void {
    this.props = props;
    if (this.language !== props.language) this.fill();
    this.language = props.language;
    this.items.forEach(({ item, button, detail }, index) => {
      const open = props.state.finding === index;
      item.classList.toggle("open", open);
      set(button, "aria-expanded", String(open));
      detail.hidden = !open;
    });
  }

  /** Bring the open finding to where it is seen. */
  reveal(): void {
    const { finding } = this.props.state;
    if (finding !== null) this.items[finding]?.item.scrollIntoView({ block: "nearest" });
  }

  private word(key: string, values: Record<string, string> = {}): string {
    return say(key, this.props.language, values);
  }

  private fill(): void {
    const counts = SEVERITIES.flatMap((severity) => {
      const count = this.findings.filter((each) => each.severity === severity).length;
      if (!count) return [];
      return [h("li", { class: severity }, [sign(severity), `${this.word(`report.${severity}`)} ${count}`])];
    });
    const title = h("h2", {}, [this.word("report.title")]);
    this.items = this.findings.map((finding, index) => this.item(finding, index));
    const list = h("ol", { class: "list" }, this.items.map(({ item }) => item));
    const none = h("p", { class: "hint" }, [this.word("report.none")]);
    set(this.element, "aria-label", this.word("report.title"));
    this.element.replaceChildren(
      h("div", { class: "sum" }, [title, h("ul", {}, counts)]),
      this.findings.length ? list : none,
    );
  }

  private item(finding: FindingHeader, index: number): (typeof this.items)[number] {
    const { severity } = finding;
    const said = textIn(finding, this.props.language);
    const head = h("span", { class: "severity" }, [sign(severity), this.word(`severity.${severity}`)]);
    const sentence = h("span", { class: "sentence", dir: "auto" }, [said.sentence]);
    const button = h("button", { type: "button", "data-key": `finding.${index}` }, [head, sentence], {
      click: () => this.click(index),
    });
    const detail = h("div", { class: "detail", hidden: true }, this.detail(finding, said));
    const item = h("li", { class: `finding ${severity}` }, [button, detail]);
    return { item, button, detail };
  }

  private click(index: number): void {
    const again = this.props.state.finding === index;
    this.props.change(again ? { finding: null } : opened(this.props.scene, index));
    const work = this.element.nextElementSibling!;
    const below = work.getBoundingClientRect().top >= this.element.getBoundingClientRect().bottom;
    if (!again && below && this.findings[index]!.drawing) work.scrollIntoView();
  }

  private detail(finding: FindingHeader, said: SayingHeader): HTMLElement[] {
    const part = (key: string, text: string): HTMLElement[] =>
      text ? [h("h3", {}, [this.word(key)]), h("p", { dir: "auto" }, [text])] : [];
    const call = finding.call
      ? [h("h3", {}, [this.word("finding.call")]), h("pre", { tabindex: 0, title: say("hint.copy", this.props.language) }, [h("code", {}, [finding.call])])]
      : [];
    return [
      ...part("finding.meaning", said.meaning),
      ...part("finding.remedy", said.remedy),
      ...call,
      h("p", { class: "facts", dir: "auto" }, [this.facts(finding)]),
    ];
  }

  /** Where it was found, by which check, with its number and limit. */
  private facts(finding: FindingHeader): string {
    const { scene, language } = this.props;
    const sceneTrace = scene.trace(finding.trace);
    const site = sceneTrace.sites.find(({ name }) => name === finding.site);
    const place =
      site && finding.head !== null
        ? joinSentences(language, [siteSentence(site, finding.head)]).replace(/[.。]$/, "")
        : finding.site;
    const alone = finding.severity === "observation" && finding.limit === 0; // some have no limit
    const both = { value: shown(finding.value), limit: shown(finding.limit) };
    const value = alone ? both.value : this.word("finding.value", both);
    return [place, checkName(language, finding.check), value].filter((each) => each !== null).join(" · ");
  }
}

function sign(severity: Severity): HTMLElement {
  return h("span", { class: "sign", "aria-hidden": "true" }, [SIGNS[severity]]);
}

/** Three digits of a number; one that JSON does not have is none. */
function shown(value: number | null): string {
  return value === null ? "—" : String(Number(value.toPrecision(3)));
}
