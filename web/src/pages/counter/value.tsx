// What a counter is now: its value, how fast it moves, and how it is kept.

import { useEffect, useRef, useState } from "react";
import { isOld } from "../../lib/api";
import type { Loaded } from "../../lib/hooks";
import type { Described } from "../../lib/described";
import { ago, compact, exact, moment } from "../../lib/format";
import { Badge, Card, Trouble, Waiting } from "../../parts/basics";
import { useTrouble } from "../../parts/notices";
import { Fact } from "./fact";

const policies: Record<string, string> = {
  local: "each worker its own cell",
  random: "any cell",
  "round-robin": "one cell after another",
  "least-loaded": "the cell with the least to do",
};

function Ago({ time }: { time: string | null }) {
  return time ? <time dateTime={time} title={moment(time)}>{ago(time)}</time> : "never";
}

function Facts({ about }: { about: Described }) {
  const isItem = about.kind === "item";
  return (
    <dl className="grid grid-cols-2 gap-4 sm:grid-cols-3">
      <Fact name="Kind">{isItem ? "reaction of an item" : "counter"}</Fact>
      <Fact name="Last written"><Ago time={about.written} /></Fact>
      <Fact name="Floor">{about.floor === null ? "none" : exact(about.floor)}</Fact>
      <Fact name="Shards">{about.shards}{about.shards_asked > 1 && ` (${about.shards_asked} asked for)`}</Fact>
      <Fact name="Policy" note={isItem ? "a user is always in the same shard" : policies[about.policy]}>{isItem ? "by user" : about.policy}</Fact>
      <Fact name="Last change of shards" note={about.shards_changed ? about.shards_reason : undefined}><Ago time={about.shards_changed} /></Fact>
    </dl>
  );
}

/** How fast it grows, over the last seconds that it was watched. */
function Pace({ live }: { live: string | null | undefined }) {
  const seen = useRef<{ time: number; value: number }[]>([]);
  const [pace, setPace] = useState(0);
  const latest = useRef(live);
  latest.current = live;
  useEffect(() => {
    const timer = setInterval(() => {
      if (latest.current === null || latest.current === undefined) return;
      seen.current = [...seen.current, { time: performance.now(), value: Number(latest.current) }].slice(-5);
      const [first, now] = [seen.current[0]!, seen.current.at(-1)!];
      setPace(now.time > first.time ? ((now.value - first.value) * 1000) / (now.time - first.time) : 0);
    }, 1000);
    return () => clearInterval(timer);
  }, []);
  const text = Math.round(pace) === 0 ? "quiet" : `${pace > 0 ? "+" : "−"}${compact(String(Math.abs(Math.round(pace))))} per second`;
  return <Badge tone={text === "quiet" ? "plain" : "good"}>{text}</Badge>;
}

export function ValueCard({ live, about }: { live: string | null | undefined; about: Loaded<Described> }) {
  const isGone = about.problem?.status === 404;
  useTrouble(about.data && !isGone ? about.problem : undefined);
  return (
    <Card title="Value" aside={about.data && isOld(about.data) ? <Badge tone="warn">may be old: a part does not answer</Badge> : <Pace live={live} />}>
      <div className="flex min-h-74 flex-col gap-5 p-4 sm:min-h-59">
        <p className="text-4xl font-semibold tracking-tight break-all tabular-nums" aria-live="off">
          {live === undefined && !isGone ? <Waiting className="h-9 w-40" /> : exact(live ?? "–")}
        </p>
        {about.problem && (isGone || !about.data) ? <Trouble problem={about.problem} onAgain={about.reload} /> : about.data && <Facts about={about.data} />}
      </div>
    </Card>
  );
}
