/** Weights as bytes: the steps of a logarithmic scale (FORMAT.md, section 2, "Levels"). */

const LOW = 28;

function weightOf(level: number): number {
  if (level === 0) return 0;
  return 0.001 * Math.exp((level <= LOW ? 0.25 : 0.0551) * (level - LOW - 0.5));
}

export const LEVELS = Float32Array.from({ length: 256 }, (_, level) => weightOf(level));
