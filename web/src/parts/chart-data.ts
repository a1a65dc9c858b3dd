// What a chart draws: a line is broken where there are no data, and what stands alone between two gaps is drawn as a point.

export type Values = (number | null)[];

/** The samples, with one that has no value wherever the next one is late: nobody was there to take those in between. */
export function broken(times: number[], lines: Values[], everyMs: number): { times: number[]; lines: Values[] } {
  const late = times.flatMap((time, i) => (i > 0 && time - times[i - 1]! > everyMs ? [i] : []));
  if (late.length === 0) return { times, lines };
  const split = <T>(values: T[], between: (i: number) => T): T[] =>
    [0, ...late].flatMap((from, part) => [...(part > 0 ? [between(from)] : []), ...values.slice(from, late[part] ?? values.length)]);
  return { times: split(times, (i) => times[i - 1]! + 1), lines: lines.map((values) => split<number | null>(values, () => null)) };
}

/** Those that have a value, and on neither side another. */
export function isolated(values: Values): number[] {
  const has = (i: number) => values[i] !== null && values[i] !== undefined;
  return values.flatMap((_, i) => (has(i) && !has(i - 1) && !has(i + 1) ? [i] : []));
}

/** What a counter's axis goes from and to: always over whole numbers, and never below 0 for what is not. */
export function counterRange(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  const room = Math.max((high - low) * 0.1, low === high ? 1 : 0);
  return [low >= 0 ? Math.max(low - room, 0) : low - room, high + room];
}

/** Steps between the figures of a counter's axis: whole numbers only. */
export const wholeSteps = Array.from({ length: 300 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power)).flat();
