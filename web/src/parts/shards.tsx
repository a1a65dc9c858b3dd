// How the load of a counter is spread over its shards, as a picture.

import { compact, exact } from "../lib/format";

/** Parts of a whole, in percent of the largest. Values may be negative: then it is their size; and of any size. */
export function shares(values: string[]): number[] {
  const sizes = values.map((value) => BigInt(value.replace(/^-/, "")));
  const largest = sizes.reduce((a, b) => (a < b ? b : a), 0n);
  return sizes.map((size) => (largest === 0n ? 0 : Number((size * 1000n) / largest) / 10));
}

function caption(shards: number, home: number, isKnown: boolean): string {
  if (shards === 1) return `One shard, in cell ${home}: it is not hot. When it is, its load is spread over more cells, and folded back later.`;
  return `Spread over ${shards} shards, so that its writers do not wait for one another.${isKnown ? " A bar is what one of them holds." : ""}`;
}

export function ShardsPicture({ shards, home, values }: { shards: number; home: number; values: string[] | null }) {
  const heights = shares(values ?? []);
  return (
    <figure aria-label="Shards" className="flex flex-col gap-3">
      {values && (
        <ul aria-label="What each shard holds" className={`flex h-32 items-stretch ${values.length > 24 ? "gap-px" : "gap-1.5"}`}>
          {values.map((value, i) => (
            <li key={i} title={`shard ${i + 1}: ${exact(value)}`} className="flex min-w-0 max-w-24 flex-1 flex-col items-center gap-1">
              <span className="flex w-full flex-1 items-end overflow-hidden rounded bg-raised">
                <span className="grow-slowly block w-full rounded bg-accent" style={{ height: `${heights[i]}%` }} />
              </span>
              {values.length <= 16 && <span aria-hidden="true" className="max-w-full truncate text-[0.6875rem] text-soft tabular-nums">{compact(value)}</span>}
              <span className="sr-only">shard {i + 1}: {exact(value)}</span>
            </li>
          ))}
        </ul>
      )}
      <figcaption className="text-xs text-soft">{caption(shards, home, values !== null)}</figcaption>
    </figure>
  );
}
