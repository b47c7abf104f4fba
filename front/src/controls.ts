/** Controls of the toolbar: each reports what the reader chose, and `update` shows the current value. */
import { percent } from "./captions";
import { h, set } from "./dom";

export interface Control<Value> {
  element: HTMLElement;
  update(value: Value): void;
}

export interface Option<Value> {
  value: Value;
  text: string;
}

/** Buttons of which exactly one is on. */
export function choice<Value extends string | number | null>(
  options: Option<Value>[],
  chosen: (value: Value) => void,
  key: string,
): Control<Value> {
  const buttons = options.map(({ value, text }) =>
    h("button", { type: "button", "data-key": `${key}.${value ?? ""}` }, [text], { click: () => chosen(value) }),
  );
  const element = h("div", { class: "choice", role: "group" }, buttons);
  const update = (value: Value): void =>
    options.forEach((option, index) => set(buttons[index]!, "aria-pressed", String(option.value === value)));
  return { element, update };
}

/** Buttons of which any number can be on; each may have a colour of its own. */
export function toggles<Value extends string | number>(
  options: (Option<Value> & { colour?: string })[],
  toggled: (value: Value) => void,
  key: string,
): Control<readonly Value[]> {
  const buttons = options.map(({ value, text, colour }) => {
    const button = h("button", { type: "button", "data-key": `${key}.${value}` }, [text], {
      click: () => toggled(value),
    });
    if (colour) button.style.setProperty("--own", colour);
    return button;
  });
  const element = h("div", { class: "choice loose", role: "group" }, buttons);
  const update = (values: readonly Value[]): void =>
    options.forEach(({ value }, index) => set(buttons[index]!, "aria-pressed", String(values.includes(value))));
  return { element, update };
}

/** A drop-down list, for many options in groups. */
export function menu(
  groups: { title: string; options: Option<string>[] }[],
  chosen: (value: string) => void,
  key: string,
): Control<string> {
  const fill = ({ title, options }: (typeof groups)[number]): HTMLElement[] => {
    const items = options.map(({ value, text }) => h("option", { value }, [text]));
    return title ? [h("optgroup", { label: title }, items)] : items;
  };
  const select = h("select", { "data-key": key }, groups.flatMap(fill), { change: () => chosen(select.value) });
  return { element: select, update: (value) => (select.value = value) };
}

/** A slider from 0 to 1 whose steps are finer near 0, where most weights are. */
export function slider(changed: (value: number) => void, key: string): Control<number> {
  const shown = h("output");
  const input = h("input", { type: "range", min: 0, max: 100, step: 1, "data-key": key }, [], {
    input: () => changed(Number(((Number(input.value) / 100) ** 2).toFixed(4))),
  });
  const update = (value: number): void => {
    if (document.activeElement !== input) input.value = String(Math.round(100 * Math.sqrt(value)));
    shown.textContent = percent(value);
    input.setAttribute("aria-valuetext", percent(value));
  };
  return { element: h("span", { class: "slider" }, [input, shown]), update };
}

/** A control with its title above it, also for screen readers. */
export function withTitle(name: string, element: HTMLElement, extra: HTMLElement[] = []): HTMLElement {
  const inner = element instanceof HTMLSelectElement ? element : element.querySelector("input");
  (inner ?? element).setAttribute("aria-label", name);
  const title = h("span", { class: "title", "aria-hidden": "true" }, [name]);
  return h("div", { class: "control" }, [title, h("div", { class: "line" }, [element, ...extra])]);
}
