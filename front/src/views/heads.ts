/** The overview: a small map for every head of every layer. */
import { checkLabel } from "../captions";
import { h } from "../dom";
import { SIGNS } from "../findings";
import { headsNumbers, type Thumbnail } from "../numbers/heads";
import type { SceneSite } from "../scene";
import { say } from "../text";
import type { View, ViewProps } from "../view";
import { ThumbnailCanvas } from "./thumbnail-canvas";

const ORDER = ["encoder", "decoder", "cross", "aggregate"];

export class HeadsView implements View {
  readonly element = h("div", { class: "heads" });
  private readonly labels = new WeakMap<HTMLElement, string[]>();

  show(props: ViewProps): string {
    const numbers = headsNumbers(props.scene, props.state);
    const sites = props.scene.trace(props.state.trace).sites;
    const kinds = [...new Set([...ORDER, ...sites.map((site) => site.kind)])];
    const sections = kinds.flatMap((kind) => {
      const rows = numbers.rows.filter((row) => row[0]?.site.kind === kind);
      return rows.length ? [this.section(props, kind, rows)] : [];
    });
    const gaps = props.scene.trace(props.state.trace).header.gaps.map(({ site, reason }) =>
      h("p", { class: "hint" }, [say("page.gap", props.language, { site, reason })]),
    );
    this.element.replaceChildren(...sections, ...gaps);
    return numbers.caption;
  }

  private section(props: ViewProps, kind: string, rows: Thumbnail[][]): HTMLElement {
    const most = Math.max(...rows.map((row) => row.length));
    const title = h("h2", {}, [say(`kind.${kind}`, props.language)]);
    const lines = rows.map((row) => this.row(props, row));
    const headNumbers = Array.from({ length: most }, (_, head) => h("span", {}, [String(head)]));
    const ruler = h("div", { class: "row ruler", "aria-hidden": "true" }, [h("span", { class: "name" }), ...headNumbers]);
    const named = rows.some((row) => row[0]!.site.header.numbers !== null) || kind === "aggregate";
    const grid = h("div", { class: "layers" }, named ? lines : [ruler, ...lines]);
    grid.style.setProperty("--heads", String(Math.max(most, 4)));
    this.listen(props, grid, rows);
    return h("section", { class: `kind ${kind}` }, [title, grid]);
  }

  private row(props: ViewProps, row: Thumbnail[]): HTMLElement {
    const { site } = row[0]!;
    const text = site.header.layer === null ? site.name : String(site.header.layer);
    const name = h("span", { class: "name", title: site.name }, [text]);
    return h("div", { class: "row", role: "group", "aria-label": site.name }, [
      name,
      ...row.map((thumb) => this.tile(props, site, thumb)),
    ]);
  }

  private tile(props: ViewProps, site: SceneSite, thumb: Thumbnail): HTMLElement {
    const { head } = thumb;
    const { state, language } = props;
    const number = site.number(head);
    const badges = site.badges(head);
    const names = badges.map((each) => checkLabel(language, each));
    const label = [site.kind === "aggregate" ? site.name : say("caption.head", language, { site: site.name, head: number }), ...names];
    const here = site.name === (state.site ?? "") && head === state.head;
    const tags = badges.length ? h("span", { class: "badges" }, badges.map((each) => badge(props, site, head, each))) : null;
    const numbered = site.header.numbers ? h("span", { class: "number", "aria-hidden": "true" }, [String(number)]) : null;
    const tile = h(
      "button",
      { type: "button", class: here ? "tile here" : "tile", "aria-label": label.join(" "), "data-head": `${site.name} ${head}` },
      [numbered, tags],
    );
    this.labels.set(tile, label);
    return tile;
  }

  /** Listen for clicks and the pointer on all tiles at once, and draw their maps. */
  private listen(props: ViewProps, grid: HTMLElement, rows: Thumbnail[][]): void {
    const tiles = [...grid.querySelectorAll<HTMLElement>(".tile")];
    const thumbs = rows.flat();
    const under = (event: Event): number => tiles.indexOf((event.target as Element).closest<HTMLElement>(".tile")!);
    grid.addEventListener("click", (event) => {
      const thumb = thumbs[under(event)];
      if (!thumb) return;
      const { site, head } = thumb;
      props.change({ view: "heatmap", site: site.name, head, ...unpinIfMoved(props, site) });
    });
    grid.addEventListener("pointermove", (event) => {
      const tile = tiles[under(event)];
      if (tile) props.tooltip.show(event, this.labels.get(tile)!);
      else props.tooltip.hide();
    });
    grid.addEventListener("pointerleave", () => props.tooltip.hide());
    new ThumbnailCanvas(rows, props.colours).drawUnder(grid, tiles);
  }
}

/** A badge at a head; that of a finding has the symbol and the colour of its severity. */
function badge(props: ViewProps, site: SceneSite, head: number, text: string): HTMLElement {
  const found = props.scene.header.findings?.find(
    (each) => each.site === site.name && each.head === head && each.check === text,
  );
  const called = checkLabel(props.language, text);
  if (!found) return h("bdi", {}, [called]);
  return h("bdi", { class: found.severity }, [`${SIGNS[found.severity]} ${called}`]);
}

/** Unpin the token when another site is opened, unless that has the same rows and columns. */
export function unpinIfMoved(props: ViewProps, site: SceneSite): { place?: null } {
  const now = props.scene.trace(props.state.trace).site(props.state.site);
  const same = now.rows.equals(site.rows) && now.columns.equals(site.columns);
  return same ? {} : { place: null };
}
