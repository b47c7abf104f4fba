/** The list of findings in a report; a click on one opens the view that shows it. */
import { checkLabel, joinSentences, siteSentence } from "./captions";
import { h, set } from "./dom";
import type { Scene } from "./scene";
import type { FindingHeader, SayingHeader, Severity } from "./scene-header";
import type { Language, ViewState } from "./state";
import { say } from "./text";
import type { ViewProps } from "./view";

export const SEVERITIES: readonly Severity[] = ["bug", "warning", "observation"];
// shapes as well as colours, for readers who cannot tell the colours apart
export const SIGNS: Record<Severity, string> = { bug: "■", warning: "▲", observation: "○" };

/** The text of a finding in a language, or in the first language that it has. */
export function findingText(finding: FindingHeader, language: Language): SayingHeader {
  return finding.said[language] ?? Object.values(finding.said)[0]!;
}

/** The changes of the state that open a finding and the view that shows it (FORMAT.md, section 1.5). */
export function openFinding(scene: Scene, index: number): Partial<ViewState> {
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

/** The changes that open the finding `by` places after the open one; none at the ends of the list. */
export function stepFinding(props: ViewProps, by: number): Partial<ViewState> {
  const count = props.scene.header.findings?.length ?? 0;
  if (!count) return {};
  const { finding } = props.state;
  const next = finding === null ? (by > 0 ? 0 : count - 1) : finding + by;
  return next < 0 || next >= count ? {} : openFinding(props.scene, next);
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

  /** Scroll the open finding into sight. */
  reveal(): void {
    const { finding } = this.props.state;
    if (finding !== null) this.items[finding]?.item.scrollIntoView({ block: "nearest" });
  }

  private say(key: string, values: Record<string, string> = {}): string {
    return say(key, this.props.language, values);
  }

  private fill(): void {
    const counts = SEVERITIES.flatMap((severity) => {
      const count = this.findings.filter((finding) => finding.severity === severity).length;
      if (!count) return [];
      return [h("li", { class: severity }, [sign(severity), `${this.say(`report.${severity}`)} ${count}`])];
    });
    const title = h("h2", {}, [this.say("report.title")]);
    this.items = this.findings.map((finding, index) => this.item(finding, index));
    const list = h("ol", { class: "list" }, this.items.map(({ item }) => item));
    const none = h("p", { class: "hint" }, [this.say("report.none")]);
    set(this.element, "aria-label", this.say("report.title"));
    this.element.replaceChildren(
      h("div", { class: "sum" }, [title, h("ul", {}, counts)]),
      this.findings.length ? list : none,
    );
  }

  private item(finding: FindingHeader, index: number): (typeof this.items)[number] {
    const { severity } = finding;
    const said = findingText(finding, this.props.language);
    const head = h("span", { class: "severity" }, [sign(severity), this.say(`severity.${severity}`)]);
    const sentence = h("span", { class: "sentence", dir: "auto" }, [said.sentence]);
    const button = h("button", { type: "button", "data-key": `finding.${index}` }, [head, sentence], {
      click: () => this.click(index),
    });
    const detail = h("div", { class: "detail", hidden: true }, this.detail(finding, said));
    const item = h("li", { class: `finding ${severity}` }, [button, detail]);
    return { item, button, detail };
  }

  /** Open a finding, or close the open one; on a narrow screen the picture is below the list, and is scrolled to. */
  private click(index: number): void {
    const isOpen = this.props.state.finding === index;
    this.props.change(isOpen ? { finding: null } : openFinding(this.props.scene, index));
    const work = this.element.nextElementSibling!;
    const below = work.getBoundingClientRect().top >= this.element.getBoundingClientRect().bottom;
    if (!isOpen && below && this.findings[index]!.drawing) work.scrollIntoView();
  }

  private detail(finding: FindingHeader, said: SayingHeader): HTMLElement[] {
    const part = (key: string, text: string): HTMLElement[] =>
      text ? [h("h3", {}, [this.say(key)]), h("p", { dir: "auto" }, [text])] : [];
    const call = finding.call
      ? [h("h3", {}, [this.say("finding.call")]), h("pre", { tabindex: 0, title: say("hint.copy", this.props.language) }, [h("code", {}, [finding.call])])]
      : [];
    return [
      ...part("finding.meaning", said.meaning),
      ...part("finding.remedy", said.remedy),
      ...call,
      h("p", { class: "facts", dir: "auto" }, [this.facts(finding)]),
    ];
  }

  /** One line: site and head, check, value and limit. */
  private facts(finding: FindingHeader): string {
    const { scene, language } = this.props;
    const sceneTrace = scene.trace(finding.trace);
    const site = sceneTrace.sites.find(({ name }) => name === finding.site);
    const place =
      site && finding.head !== null
        ? joinSentences(language, [siteSentence(site, finding.head)]).replace(/[.。]$/, "")
        : finding.site;
    const withoutLimit = finding.severity === "observation" && finding.limit === 0; // summaries have no limit
    const values = { value: threeDigits(finding.value), limit: threeDigits(finding.limit) };
    const value = withoutLimit ? values.value : this.say("finding.value", values);
    return [place, checkLabel(language, finding.check), value].filter((part) => part !== null).join(" · ");
  }
}

function sign(severity: Severity): HTMLElement {
  return h("span", { class: "sign", "aria-hidden": "true" }, [SIGNS[severity]]);
}

/** A number with three digits; JSON has no NaN and no infinity, which come as null. */
function threeDigits(value: number | null): string {
  return value === null ? "—" : String(Number(value.toPrecision(3)));
}
