/** The overlay view: attention over an image, for the pinned row or all rows on average. */
import { percent } from "../captions";
import { colourAt, css } from "../colours";
import { h, resizeCanvas } from "../dom";
import { legend } from "../legend";
import { largest } from "../matrix";
import { overlayNumbers, type OverlayNumbers } from "../numbers/overlay";
import { say } from "../text";
import { visible } from "../token-text";
import type { View, ViewProps } from "../view";

export class OverlayView implements View {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { role: "img" });
  private readonly steps = h("p", { class: "text steps" });
  private readonly bar = h("div", { class: "legend" });
  private readonly files = new Map<number, HTMLImageElement>();
  private image: HTMLImageElement | null = null;
  private props!: ViewProps;
  private numbers!: OverlayNumbers;

  constructor() {
    this.element = h("div", { class: "picture" }, [this.steps, this.canvas, this.bar]);
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => this.props.tooltip.hide());
  }

  show(props: ViewProps): string {
    this.props = props;
    this.numbers = overlayNumbers(props.scene, props.state);
    this.canvas.setAttribute("aria-label", this.numbers.caption);
    this.fillSteps();
    this.loadImage();
    this.draw();
    return this.numbers.caption;
  }

  resize(): void {
    this.draw();
  }

  /** The tokens of the rows as buttons. */
  private fillSteps(): void {
    const { props, numbers } = this;
    const words = numbers.steps.map((label): HTMLElement => {
      const { place } = props.state;
      const pinned = place !== null && label.start <= place && place < label.stop;
      return h(
        "button",
        { type: "button", class: pinned ? "word pinned" : "word", "aria-pressed": String(pinned) },
        [visible(label.text)],
        { click: () => props.change({ axis: "row", place: pinned ? null : label.start }) },
      );
    });
    this.steps.replaceChildren(...words);
  }

  /** Get the image; it is read from its blob once, and hasImage when it has arrived. */
  private loadImage(): void {
    const { scene, state } = this.props;
    const sceneTrace = scene.trace(state.trace);
    const file = sceneTrace.header.pictures[sceneTrace.site(state.site).columns.stream];
    this.image = file ? (this.files.get(file.blob) ?? null) : null;
    if (!file || this.files.has(file.blob)) return;
    const image = new Image();
    this.files.set(file.blob, image);
    void scene.bytes(file.blob).then((bytes) => {
      const address = URL.createObjectURL(new Blob([bytes as Uint8Array<ArrayBuffer>], { type: file.type }));
      image.addEventListener("load", () => {
        URL.revokeObjectURL(address);
        this.image = image;
        this.draw();
      });
      image.src = address;
    });
  }

  /** The size of the image on the canvas: as wide as it fits, without distortion. */
  private get size(): [number, number] {
    const { rows, columns } = this.numbers.weights;
    const { image } = this;
    const shape = image?.naturalWidth ? image.naturalHeight / image.naturalWidth : rows / columns;
    const most = Math.min(this.element.clientWidth, 720, (window.innerHeight * 0.7) / shape);
    return [Math.round(most), Math.round(most * shape)];
  }

  private draw(): void {
    const { numbers, props, image } = this;
    const [wide, high] = this.size;
    const context = resizeCanvas(this.canvas, wide, high);
    const { rows, columns } = numbers.weights;
    const hasImage = !!image?.naturalWidth;
    this.bar.replaceChildren(legend(props, largest(numbers.weights.data), false, hasImage ? OVERLAY_COLOURS : undefined));
    if (hasImage) {
      context.drawImage(image, 0, 0, wide, high);
      context.fillStyle = props.theme === "dark" ? "rgb(16 18 22 / 35%)" : "rgb(20 22 28 / 28%)";
      context.fillRect(0, 0, wide, high);
    }
    for (let cell = 0; cell < numbers.shades.length; cell++) {
      const shade = numbers.shades[cell]!;
      const [row, column] = [Math.floor(cell / columns), cell % columns];
      const [x, y] = [Math.round((column * wide) / columns), Math.round((row * high) / rows)];
      const [right, bottom] = [Math.round(((column + 1) * wide) / columns), Math.round(((row + 1) * high) / rows)];
      // bright colours over the dimmed image, the same in both themes
      context.fillStyle = css(colourAt(hasImage ? OVERLAY_COLOURS : props.colours.weights, shade));
      context.globalAlpha = hasImage ? 0.8 * shade ** 0.8 : 1;
      context.fillRect(x, y, right - x, bottom - y);
    }
    context.globalAlpha = 1;
  }

  private hover(event: PointerEvent): void {
    const box = this.canvas.getBoundingClientRect();
    const { rows, columns, data } = this.numbers.weights;
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    if (row < 0 || column < 0 || row >= rows || column >= columns) return this.props.tooltip.hide();
    const values = { row: row + 1, column: column + 1, weight: percent(data[row * columns + column]!) };
    this.props.tooltip.show(event, [say("hover.weight", this.props.language, values).replace(" → ", ", ")]);
  }
}

/** From violet over orange to yellow: visible on any image. */
const OVERLAY_COLOURS = Uint32Array.from({ length: 257 }, (_, step) => {
  const at = step / 256;
  const [red, green, blue] = [120 + 135 * at ** 0.6, 20 + 215 * at ** 1.4, 140 * (1 - at) ** 1.5 + 40 * at];
  return ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0;
});
