// How the load of a counter spreads over its shards, as a picture.

import { compact, exact } from "../lib/format";
import { compareValues } from "../pages/counters";

export interface Shard {
  shard: number;
  value: string;
  writes?: number;
}

/** A bar for each shard, as long as its part of all. Values may be negative: then it is their size. */
export function ShardsPicture({ shards, home, parts }: { shards: number; home: number; parts: Shard[] }) {
  const sizes = parts.map((part) => part.value.replace(/^-/, ""));
  const largest = sizes.reduce((a, b) => (compareValues(a, b) < 0 ? b : a), "0");
  const share = (value: string) =>
    largest === "0" ? 0 : Number((BigInt(value.replace(/^-/, "")) * 1000n) / BigInt(largest)) / 10;
  return (
    <figure className="border-t border-line p-4" aria-label="Shards">
      <figcaption className="mb-3 text-xs text-soft">
        {shards === 1
          ? `One shard, in cell ${home}. When it gets hot, its load is spread over more of the 64 cells.`
          : `Spread over ${shards} of 64 cells; home is cell ${home}.`}
      </figcaption>
      <ul className="flex max-h-80 flex-col gap-1.5 overflow-y-auto">
        {parts.map((part) => (
          <li key={part.shard} className="grid grid-cols-[3.5rem_minmax(0,1fr)_4rem] items-center gap-2 text-xs">
            <span className="text-soft">cell {part.shard}</span>
            <span className="h-3 overflow-hidden rounded bg-raised">
              <span className="block h-full rounded bg-accent" style={{ width: `${share(part.value)}%` }} />
            </span>
            <span className="text-right tabular-nums" title={exact(part.value)}>{compact(part.value)}</span>
          </li>
        ))}
      </ul>
    </figure>
  );
}
