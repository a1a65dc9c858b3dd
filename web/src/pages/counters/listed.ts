// Counters as they are listed, and in which order.

import type { Counts } from "../../lib/api";
import { exact } from "../../lib/format";

/** As the server has it: an item with all its counts, or a counter. */
export interface Listed {
  id: string;
  value?: string | null; // null: the store's row is damaged, and is being counted anew
  counts?: Counts;
  hot: boolean;
}

export interface Row {
  id: string;
  item: string | null; // of a reaction
  value: string;
  isHot: boolean;
}

export type Sort = "id" | "value";

/** An item has a counter for each kind of reaction. */
export function rowsOf(listed: Listed[]): Row[] {
  return listed.flatMap(({ id, value, counts, hot }): Row[] =>
    counts
      ? Object.entries(counts).map(([kind, count]) => ({ id: `${id}/${kind}`, item: id, value: count, isHot: hot }))
      : [{ id, item: null, value: value ?? "?", isHot: hot }]);
}

/** How many there are, as the overview counts them: an item is one, however many kinds of reactions it has. */
export function countedText(rows: Row[]): string {
  const items = new Set(rows.flatMap(({ item }) => (item === null ? [] : [item]))).size;
  const counters = rows.filter(({ item }) => item === null).length;
  const text = (count: number, thing: string) => `${exact(String(count))} ${thing}${count === 1 ? "" : "s"}`;
  if (items === 0) return text(counters, "counter");
  return `${counters > 0 ? `${text(counters, "counter")} and ` : ""}${text(items, "item")}, in ${text(rows.length, "row")}`;
}

/** Of decimals of any size, as text: a hundred thousand are compared in no time. */
export function compareValues(a: string, b: string): number {
  const isMinus = a.startsWith("-");
  if (isMinus !== b.startsWith("-")) return isMinus ? -1 : 1;
  const order = a.length !== b.length ? a.length - b.length : a < b ? -1 : a > b ? 1 : 0;
  return isMinus ? -order : order;
}

export function sorted(rows: Row[], sort: Sort, isDown: boolean): Row[] {
  const sign = isDown ? -1 : 1;
  return [...rows].sort((a, b) => sign * (sort === "id" ? (a.id < b.id ? -1 : 1) : compareValues(a.value, b.value)));
}
