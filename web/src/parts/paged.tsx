// A list that comes page by page, and what stands in its place when there is nothing in it.

import type { ReactNode } from "react";
import { exact } from "../lib/format";
import { ageText, type Paged } from "../lib/pages";
import { Empty, Trouble, Waiting } from "./basics";
import { useTrouble } from "./notices";
import { Rows } from "./rows";

/** As many lines as are usual, so that the page does not jump when the list is there. */
export function WaitingRows({ label }: { label: string }) {
  return (
    <div role="status" className="flex min-h-64 flex-col gap-5 p-4">
      <span className="sr-only">{label} are loaded.</span>
      {["w-2/3", "w-1/2", "w-3/5", "w-2/5", "w-1/2"].map((width, i) => <Waiting key={i} className={`h-4 ${width}`} />)}
    </div>
  );
}

/** `things` is what the rows are, in the plural: "members". `note` follows their number. */
export function PagedList<T>({ label, paged, things, note = "", empty, ...rest }: {
  label: string;
  paged: Paged<T>;
  things: string;
  note?: string;
  empty: ReactNode;
  rowHeight: number;
  columns: string;
  head: ReactNode;
  children: (row: T, index: number) => ReactNode;
  keyOf: (row: T, index: number) => string;
}) {
  const { rows, problem, isWhole } = paged;
  const age = ageText(paged.oldAsOf);
  useTrouble(rows.length > 0 ? problem : undefined);
  if (rows.length > 0)
    return <Rows label={label} rows={rows} onEnd={paged.more} onHold={paged.hold} foot={`${exact(String(rows.length))} ${things}${isWhole ? "" : ", and more"}${note}${age && `; ${age}`}`} {...rest} />;
  if (problem) return <div className="p-4"><Trouble problem={problem} onAgain={paged.reload} /></div>;
  if (!isWhole) return <WaitingRows label={label} />;
  return age ? <Empty icon="warning" title={`No ${things} that are known`}>There may be some: {age}.</Empty> : empty;
}
