/** A matrix of weights, stored row by row. */
export interface Matrix {
  rows: number;
  columns: number;
  data: Float32Array;
}

export function zeros(rows: number, columns: number): Matrix {
  return { rows, columns, data: new Float32Array(rows * columns) };
}

/** The largest value of a part of the data; 0 if none is positive. */
export function largest(data: Float32Array, start = 0, stop = data.length): number {
  let result = 0;
  for (let index = start; index < stop; index++) {
    const value = data[index]!;
    if (value > result) result = value;
  }
  return result;
}

/** The mean of matrices of one shape, summed in double precision. */
export function mean(matrices: Matrix[]): Matrix {
  const first = matrices[0]!;
  if (matrices.length === 1) return first;
  const total = new Float64Array(first.data.length);
  for (const { data } of matrices) {
    for (let index = 0; index < total.length; index++) total[index]! += data[index]!;
  }
  const result = zeros(first.rows, first.columns);
  for (let index = 0; index < total.length; index++) {
    result.data[index] = total[index]! / matrices.length;
  }
  return result;
}
