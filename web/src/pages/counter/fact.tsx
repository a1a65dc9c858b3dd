// Something that is known about a counter: its name, and below it what it is.

import type { ReactNode } from "react";

export function Fact({ name, note, children }: { name: string; note?: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-xs text-soft">{name}</dt>
      <dd className="text-sm font-medium break-words">{children}</dd>
      {note && <dd className="text-xs text-soft">{note}</dd>}
    </div>
  );
}
