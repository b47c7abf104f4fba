/** The tooltip that follows the pointer; it stays inside the window. */
import { h } from "./dom";

export class Tooltip {
  readonly element = h("div", { class: "tip", role: "status", "aria-live": "off", hidden: true });

  show(event: { clientX: number; clientY: number }, lines: string[]): void {
    this.element.replaceChildren(...lines.map((line) => h("div", { dir: "auto" }, [line])));
    this.element.hidden = false;
    const { offsetWidth, offsetHeight } = this.element;
    const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - offsetWidth - 8);
    const below = event.clientY + 18;
    const fits = below + offsetHeight < window.innerHeight - 8;
    this.element.style.left = `${Math.max(8, left)}px`;
    this.element.style.top = `${fits ? below : Math.max(8, event.clientY - offsetHeight - 12)}px`;
  }

  hide(): void {
    this.element.hidden = true;
  }
}
