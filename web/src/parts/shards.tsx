// How a counter spreads over its shards, as a picture.

import { compact, exact } from "../lib/format";

/** Parts of a whole, in percent of the largest. Values may be negative: then it is their size; and of any size. */
export function shares(values: string[]): number[] {
  const sizes = values.map((value) => BigInt(value.replace(/^-/, "")));
  const largest = sizes.reduce((a, b) => (a < b ? b : a), 0n);
  return sizes.map((size) => (largest === 0n ? 0 : Number((size * 1000n) / largest) / 10));
}

export function ShardsPicture({ shards, home, values }: { shards: number; home: number; values: string[] }) {
  const widths = shares(values);
  return (
    <figure className="border-t border-line p-4" aria-label="Shards">
      <figcaption className="mb-3 text-xs text-soft">
        {shards === 1
          ? `One shard, in cell ${home}. When it gets hot, its load is spread over more of the 64 cells.`
          : `Spread over ${shards} of 64 cells; home is cell ${home}. Each bar is what one of them holds.`}
      </figcaption>
      {shards > 1 && (
        <ul className="flex max-h-80 flex-col gap-1.5 overflow-y-auto" tabIndex={0} aria-label="What each shard holds">
          {values.map((value, i) => (
            <li key={i} className="grid grid-cols-[4.5rem_minmax(0,1fr)_4rem] items-center gap-2 text-xs">
              <span className="text-soft">shard {i + 1}</span>
              <span className="h-3 overflow-hidden rounded bg-raised">
                <span className="block h-full rounded bg-accent" style={{ width: `${widths[i]}%` }} />
              </span>
              <span className="text-right tabular-nums" title={exact(value)}>{compact(value)}</span>
            </li>
          ))}
        </ul>
      )}
    </figure>
  );
}
