/** A map as numbers: rows x columns, row by row. */
export interface Matrix {
  rows: number;
  columns: number;
  data: Float32Array;
}

export function zeros(rows: number, columns: number): Matrix {
  return { rows, columns, data: new Float32Array(rows * columns) };
}

export function largest(data: Float32Array, start = 0, stop = data.length): number {
  let found = 0;
  for (let index = start; index < stop; index++) {
    const value = data[index]!;
    if (value > found) found = value;
  }
  return found;
}

/** The mean of maps of one shape, added up in double precision. */
export function mean(matrices: Matrix[]): Matrix {
  const first = matrices[0]!;
  if (matrices.length === 1) return first;
  const total = new Float64Array(first.data.length);
  for (const { data } of matrices) {
    for (let index = 0; index < total.length; index++) total[index]! += data[index]!;
  }
  const found = zeros(first.rows, first.columns);
  for (let index = 0; index < total.length; index++) {
    found.data[index] = total[index]! / matrices.length;
  }
  return found;
}
