/** Elements and canvases. Children that are strings become text nodes, never markup: tokens are untrusted. */

type Child = Node | string | null;
type Attributes = Record<string, string | number | boolean | null>;
type Handlers = { [Name in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[Name]) => void };

/** An element with attributes, children and event handlers. */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  children: Child[] = [],
  handlers: Handlers = {},
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...children.filter((child): child is Node | string => child !== null));
  for (const [name, handler] of Object.entries(handlers)) {
    element.addEventListener(name, handler as EventListener);
  }
  return element;
}

/** Set an attribute; null and false remove it, true sets it without a value. */
export function set(element: Element, name: string, value: string | number | boolean | null): void {
  if (value === null || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

/** Give a canvas this size in CSS pixels, sharp on this screen, and return its context, cleared. */
export function resizeCanvas(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const density = Math.min(3, window.devicePixelRatio || 1);
  const [wide, high] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
