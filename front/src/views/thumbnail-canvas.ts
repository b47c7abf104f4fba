/** The canvas under the tiles of the overview: one for all heads, because hundreds of canvases would be slow. */
import { paintShades, type Colours } from "../colours";
import { h, resizeCanvas } from "../dom";
import type { Thumbnail } from "../numbers/heads";

const CORNER = 4; // pixels: the radius of the corners of a tile

export class ThumbnailCanvas {
  readonly element = h("canvas", { class: "sheet", "aria-hidden": "true" }) as HTMLCanvasElement;
  private readonly maps: HTMLCanvasElement;
  private readonly places: { thumb: Thumbnail; x: number; y: number }[] = [];
  private tiles: HTMLElement[] = [];

  /** Paint the maps of all rows side by side, one pixel for each cell. */
  constructor(rows: Thumbnail[][], colours: Colours) {
    const wide = Math.max(...rows.map((row) => row.reduce((sum, { width }) => sum + width, 0)));
    const high = rows.reduce((sum, row) => sum + Math.max(...row.map(({ height }) => height)), 0);
    const image = new ImageData(wide, high);
    let y = 0;
    for (const row of rows) {
      let x = 0;
      for (const thumb of row) {
        paintShades(image, thumb.shades, thumb.width, colours.weights, x, y);
        this.places.push({ thumb, x, y });
        x += thumb.width;
      }
      y += Math.max(...row.map(({ height }) => height));
    }
    this.maps = document.createElement("canvas");
    [this.maps.width, this.maps.height] = [wide, high];
    this.maps.getContext("2d")!.putImageData(image, 0, 0);
  }

  /** Draw under these tiles of a grid, in the order of the rows, and again when their size changes. */
  drawUnder(grid: HTMLElement, tiles: HTMLElement[]): void {
    this.tiles = tiles;
    grid.prepend(this.element);
    new ResizeObserver(() => this.draw()).observe(grid);
  }

  private draw(): void {
    const boxes = this.tiles.map((tile) => [tile.offsetLeft, tile.offsetTop, tile.offsetWidth, tile.offsetHeight] as const);
    const wide = Math.max(...boxes.map(([left, , width]) => left + width));
    const high = Math.max(...boxes.map(([, top, , height]) => top + height));
    if (!(wide > 0)) return; // the view is hidden
    const context = resizeCanvas(this.element, wide, high);
    context.imageSmoothingEnabled = false;
    context.beginPath();
    for (const box of boxes) context.roundRect(...box, CORNER);
    context.clip();
    this.places.forEach(({ thumb, x, y }, index) => {
      context.drawImage(this.maps, x, y, thumb.width, thumb.height, ...boxes[index]!);
    });
  }
}
