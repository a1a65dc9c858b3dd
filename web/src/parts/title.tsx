// The head of a page: what one sees, what the browser calls it, and where somebody who cannot see it is put on arrival.

import { useEffect, useRef, type ReactNode } from "react";

let isFirstPage = true;

/** Who has gone to another page begins at its top. The first page is left to the browser. */
function useArrival(): React.RefObject<HTMLHeadingElement | null> {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (!isFirstPage) {
      window.scrollTo(0, 0);
      heading.current?.focus({ preventScroll: true });
    }
    isFirstPage = false;
  }, []);
  return heading;
}

export function PageTitle({ title, children, aside }: { title: string; children?: ReactNode; aside?: ReactNode }) {
  const heading = useArrival();
  useEffect(() => {
    document.title = `${title} · Tally`;
  }, [title]);
  return (
    <div className="mb-5 flex flex-wrap items-end justify-between gap-3">
      <div className="min-w-64 flex-1">
        <h1 ref={heading} tabIndex={-1} className="text-xl font-semibold tracking-tight break-words outline-none">{title}</h1>
        {children && <p className="mt-1 max-w-3xl text-sm text-pretty text-soft">{children}</p>}
      </div>
      {aside}
    </div>
  );
}
