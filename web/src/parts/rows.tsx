// A list of any length: only the rows that can be seen are there.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, type ReactNode } from "react";

const AHEAD = 20; // rows before the end when more are asked for

/** Rows of one height each. `head` is the row above them; columns are laid out by `columns`, a class of a grid. `onHold` is told when
 * somebody has scrolled into the list, and when he is back at its beginning. */
export function Rows<T>({ label, rows, rowHeight = 44, columns, head, children, keyOf, onEnd, onHold, foot }: {
  label: string;
  rows: T[];
  rowHeight?: number;
  columns: string;
  head: ReactNode;
  children: (row: T, index: number) => ReactNode;
  keyOf: (row: T, index: number) => string;
  onEnd?: () => void;
  onHold?: (isHeld: boolean) => void;
  foot?: ReactNode;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 12,
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  useEffect(() => {
    if (onEnd && last >= 0 && last >= rows.length - AHEAD) onEnd();
  }, [onEnd, last, rows.length]);
  useEffect(() => () => onHold?.(false), [onHold]); // a list that is gone is not read any more
  return (
    <div role="table" aria-label={label} aria-rowcount={rows.length + 1} className="text-sm">
      <div role="rowgroup" className="border-b border-line">
        <div role="row" aria-rowindex={1} className={`grid items-center gap-3 px-4 py-2 text-xs font-medium text-soft ${columns}`}>{head}</div>
      </div>
      <div ref={scroller} role="rowgroup" tabIndex={0} aria-label={`${label}, scrolls`}
        onScroll={(event) => onHold?.(event.currentTarget.scrollTop > 0)}
        className="max-h-[min(65dvh,40rem)] overflow-y-auto overscroll-contain focus-visible:outline-offset-[-2px]">
        <div className="relative" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => (
            <div key={keyOf(rows[item.index]!, item.index)} role="row" aria-rowindex={item.index + 2}
              className={`absolute inset-x-0 grid items-center gap-3 border-b border-line px-4 last:border-b-0 hover:bg-raised ${columns}`}
              style={{ height: rowHeight, transform: `translateY(${item.start}px)` }}>
              {children(rows[item.index]!, item.index)}
            </div>
          ))}
        </div>
      </div>
      {foot && <div className="border-t border-line px-4 py-2 text-xs text-soft">{foot}</div>}
    </div>
  );
}

export function Cell({ children, className = "" }: { children: ReactNode; className?: string }) {
  return <div role="cell" className={`min-w-0 truncate ${className}`}>{children}</div>;
}

export function HeadCell({ children, className = "" }: { children: ReactNode; className?: string }) {
  return <div role="columnheader" className={className}>{children}</div>;
}
