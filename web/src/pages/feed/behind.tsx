// What happens behind the feed: the way of a like, and the shards of what was touched last.

import { Suspense, useMemo } from "react";
import { useDescribed } from "../../lib/described";
import { last, SAMPLES_MS, type Samples } from "../../lib/figures";
import { exact, figure } from "../../lib/format";
import { useLive } from "../../lib/hooks";
import { Link } from "../../lib/router";
import { lagText, type Status } from "../../lib/status";
import { Card } from "../../parts/basics";
import type { Line } from "../../parts/chart";
import { Boundary, lazily } from "../../parts/chunk";
import { ShardsPicture } from "../../parts/shards";
import { newest, stationsOf, Way } from "../../parts/way";

// Counts and clicks come first, the drawing of charts when it is there.
const Chart = lazily(() => import("../../parts/chart").then((module) => ({ default: module.Chart })));

function ShardsOf({ id }: { id: string }) {
  const about = useDescribed(id, 1000).data;
  return about && <ShardsPicture shards={about.shards} home={about.home} values={about.shard_values} />;
}

/** Of what was touched last: going viral spreads it. */
function Shards({ item }: { item: string }) {
  const id = `${item}/like`;
  const value = useLive(id);
  return (
    <Card title="Its shards" aside={<Link to={["counters", id]} className="truncate font-mono text-xs text-accent-text hover:underline">{id}</Link>}>
      <div className="flex min-h-32 flex-col gap-3 p-4">
        <p className="text-2xl font-semibold tabular-nums">{exact(value ?? "0")}</p>
        {value && value !== "0" ? <ShardsOf id={id} /> : <p className="text-xs text-soft">{value !== undefined && "Nobody likes it yet."}</p>}
      </div>
    </Card>
  );
}

export function Behind({ samples, status, item }: { samples: Samples; status: Status | undefined; item: string }) {
  const times = samples.time as number[];
  const lines = useMemo<Line[]>(() => [{ name: "writes", colour: "accent", values: samples.writes }], [samples]);
  return (
    <div className="sticky top-6 flex flex-col gap-4">
      <Card title="What happens now" aside={<Link to={["pipeline"]} className="text-xs text-accent-text hover:underline">The pipeline</Link>}>
        <div className="flex flex-col gap-4 p-4">
          <div className="h-10">
            <Boundary place="chart" instead={<p className="text-xs text-soft">The chart could not be loaded. All else works.</p>}>
              <Suspense><Chart label="Writes per second, the last minute" times={times} lines={lines} text={figure} everyMs={SAMPLES_MS} isBare /></Suspense>
            </Boundary>
          </div>
          <Way stations={stationsOf(samples, status)} isColumn />
        </div>
      </Card>
      <Shards item={item} />
    </div>
  );
}

/** The same in a line, where there is no room beside the posts. */
export function BehindInShort({ samples, status }: { samples: Samples; status: Status | undefined }) {
  const told: [string, string][] = [
    ["writes per second", newest(samples, "writes", figure)],
    ["on the way to the store", newest(samples, "lag_events", (count) => lagText(count, status?.pipeline))],
    ["the log on disk within", newest(samples, "sync_us", (us) => `${figure(us / 1000)} ms`, "idle")],
  ];
  const isMoving = (last(samples, "writes") ?? 0) > 0;
  return (
    <Link to={["pipeline"]} className="mb-4 grid grid-cols-3 gap-3 rounded-xl border border-line bg-panel p-3 hover:bg-raised">
      {told.map(([name, value]) => (
        <span key={name} className="min-w-0">
          <span className={`block font-semibold tabular-nums ${isMoving ? "text-accent-text" : ""}`}>{value}</span>
          <span className="block text-xs text-soft">{name}</span>
        </span>
      ))}
    </Link>
  );
}
