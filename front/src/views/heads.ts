/** All layers x heads as small maps in one glance. */
import { checkSaid } from "../captions";
import { h } from "../dom";
import { SIGNS } from "../findings";
import type { Drawing, Look } from "../view";
import { thumbs, type Thumb } from "../numbers/heads";
import type { Site } from "../scene";
import { say } from "../text";
import { Sheet } from "./thumbnail-canvas";

const KINDS = ["encoder", "decoder", "cross", "aggregate"];

export class HeadsView implements Drawing {
  readonly element = h("div", { class: "heads" });
  private readonly labels = new WeakMap<HTMLElement, string[]>();

  show(look: Look): string {
    const found = thumbs(look.scene, look.state);
    const sites = look.scene.trace(look.state.trace).sites;
    const kinds = [...new Set([...KINDS, ...sites.map((site) => site.kind)])];
    const sections = kinds.flatMap((kind) => {
      const rows = found.rows.filter((row) => row[0]?.site.kind === kind);
      return rows.length ? [this.section(look, kind, rows)] : [];
    });
    const gaps = look.scene.trace(look.state.trace).header.gaps.map(({ site, reason }) =>
      h("p", { class: "hint" }, [say("page.gap", look.language, { site, reason })]),
    );
    this.element.replaceChildren(...sections, ...gaps);
    return found.caption;
  }

  private section(look: Look, kind: string, rows: Thumb[][]): HTMLElement {
    const most = Math.max(...rows.map((row) => row.length));
    const title = h("h2", {}, [say(`kind.${kind}`, look.language)]);
    const lines = rows.map((row) => this.row(look, row));
    const numbers = Array.from({ length: most }, (_, head) => h("span", {}, [String(head)]));
    const ruler = h("div", { class: "row ruler", "aria-hidden": "true" }, [h("span", { class: "name" }), ...numbers]);
    const named = rows.some((row) => row[0]!.site.header.numbers !== null) || kind === "aggregate";
    const grid = h("div", { class: "layers" }, named ? lines : [ruler, ...lines]);
    grid.style.setProperty("--heads", String(Math.max(most, 4)));
    this.listen(look, grid, rows);
    return h("section", { class: `kind ${kind}` }, [title, grid]);
  }

  private row(look: Look, row: Thumb[]): HTMLElement {
    const { site } = row[0]!;
    const text = site.header.layer === null ? site.name : String(site.header.layer);
    const name = h("span", { class: "name", title: site.name }, [text]);
    return h("div", { class: "row", role: "group", "aria-label": site.name }, [
      name,
      ...row.map((thumb) => this.tile(look, site, thumb)),
    ]);
  }

  private tile(look: Look, site: Site, thumb: Thumb): HTMLElement {
    const { head } = thumb;
    const { state, language } = look;
    const number = site.number(head);
    const badges = site.badges(head);
    const called = badges.map((each) => checkSaid(language, each));
    const label = [site.kind === "aggregate" ? site.name : say("caption.head", language, { site: site.name, head: number }), ...called];
    const here = site.name === (state.site ?? "") && head === state.head;
    const tags = badges.length ? h("span", { class: "badges" }, badges.map((each) => badge(look, site, head, each))) : null;
    const numbered = site.header.numbers ? h("span", { class: "number", "aria-hidden": "true" }, [String(number)]) : null;
    const tile = h(
      "button",
      { type: "button", class: here ? "tile here" : "tile", "aria-label": label.join(" "), "data-head": `${site.name} ${head}` },
      [numbered, tags],
    );
    this.labels.set(tile, label);
    return tile;
  }

  /** What a tile does; the grid listens for all of them. */
  private listen(look: Look, grid: HTMLElement, rows: Thumb[][]): void {
    const tiles = [...grid.querySelectorAll<HTMLElement>(".tile")];
    const thumbs = rows.flat();
    const under = (event: Event): number => tiles.indexOf((event.target as Element).closest<HTMLElement>(".tile")!);
    grid.addEventListener("click", (event) => {
      const thumb = thumbs[under(event)];
      if (!thumb) return;
      const { site, head } = thumb;
      look.change({ view: "heatmap", site: site.name, head, ...stillPinned(look, site) });
    });
    grid.addEventListener("pointermove", (event) => {
      const tile = tiles[under(event)];
      if (tile) look.tip.show(event, this.labels.get(tile)!);
      else look.tip.hide();
    });
    grid.addEventListener("pointerleave", () => look.tip.hide());
    new Sheet(rows, look.colours).under(grid, tiles);
  }
}

/** A short text at a head; that of a finding has the sign and the colour of its severity. */
function badge(look: Look, site: Site, head: number, text: string): HTMLElement {
  const found = look.scene.header.findings?.find(
    (each) => each.site === site.name && each.head === head && each.check === text,
  );
  const called = checkSaid(look.language, text);
  if (!found) return h("bdi", {}, [called]);
  return h("bdi", { class: found.severity }, [`${SIGNS[found.severity]} ${called}`]);
}

/** A pinned token stays pinned where the other site has the same rows and columns. */
export function stillPinned(look: Look, site: Site): { place?: null } {
  const now = look.scene.trace(look.state.trace).site(look.state.site);
  const same = now.rows.equals(site.rows) && now.columns.equals(site.columns);
  return same ? {} : { place: null };
}
