// What a counter was: as a chart, and at a moment that somebody names.

import { useMemo, useState } from "react";
import { compact, exact, moment } from "../../lib/format";
import { pointsOf, pastSpans, useMoment, usePast, useWatched, type PastSpan, type Point } from "../../lib/history";
import { useStreamState } from "../../lib/hooks";
import { useIsUp } from "../../lib/up";
import { Button, Card, Field, fieldLook, Trouble } from "../../parts/basics";
import { Chart, type Line } from "../../parts/chart";

/** Whole as long as there is room for it. */
function roundText(value: number): string {
  return Math.abs(value) < 1e9 ? exact(String(Math.round(value))) : compact(BigInt(Math.round(value)).toString());
}

function ValueChart({ points, id }: { points: Point[]; id: string }) {
  const times = useMemo(() => points.map((point) => point.time), [points]);
  const lines = useMemo<Line[]>(() => [{ name: "value", colour: "accent", values: points.map((point) => point.value) }], [points]);
  const isEmpty = points.every((point) => point.value === null);
  return (
    <div className="relative">
      <Chart label={`The value of ${id} over time`} times={times} lines={lines} text={roundText} everyMs={Infinity} isFree />
      {isEmpty && points.length > 0 && <p className="absolute inset-x-0 top-20 text-center text-sm text-soft">There are no values to draw.</p>}
    </div>
  );
}

/** `note` is told until somebody has asked. */
function AtMoment({ id, note }: { id: string; note: string }) {
  const [time, setTime] = useState("");
  const [asked, look] = useMoment(id);
  const answer = () => {
    if (!asked || asked.problem) return undefined;
    if (!asked.isAnswered) return "Reading the log…";
    const then = moment(asked.time);
    if (asked.value === undefined) return `The log does not reach back to ${then}`;
    return asked.value === null ? `It did not exist at ${then}` : `${exact(asked.value)} at ${then}`;
  };
  return (
    <form className="flex flex-wrap items-end gap-x-4 gap-y-2 border-t border-line px-4 py-3"
      onSubmit={(event) => { event.preventDefault(); if (time) look(Date.parse(time)); }}>
      <div className="flex max-w-full min-w-0 items-end gap-2">
        <Field label="Its value at a moment">
          <input type="datetime-local" step={1} className={fieldLook} value={time} onChange={(event) => setTime(event.target.value)} />
        </Field>
        <Button type="submit" disabled={!time}>Show</Button>
      </div>
      <p role="status" className={`flex min-h-9 items-center text-sm tabular-nums ${asked?.isAnswered ? "font-medium" : "text-soft"}`}>{answer() ?? note}</p>
      {asked?.problem && <Trouble problem={asked.problem} />}
    </form>
  );
}

/** `hasPast`: the log is this server's own, and can be asked. */
export function History({ id, live, hasPast }: { id: string; live: string | null | undefined; hasPast: boolean }) {
  const [span, setSpan] = useState<PastSpan>("here");
  const stream = useStreamState();
  const isUp = useIsUp();
  const watched = useWatched(id, live, stream === "live" || (stream === "down" && isUp)); // where streams are blocked, values are read
  const past = usePast(id, span);
  const points = useMemo(() => (span === "here" ? watched : pointsOf(past.points, watched)), [span, watched, past.points]);
  return (
    <Card title="History" aside={hasPast && (
      <div className="w-60">
        <select aria-label="History shows" className={fieldLook} value={span} onChange={(event) => setSpan(event.target.value as PastSpan)}>
          {Object.entries(pastSpans).map(([name, { title }]) => <option key={name} value={name}>{title}</option>)}
        </select>
      </div>
    )}>
      {past.problem && <div className="p-4"><Trouble problem={past.problem} /></div>}
      <ValueChart points={points} id={id} />
      {hasPast ? <AtMoment id={id} note={past.note} /> : (
        <p className="border-t border-line px-4 py-3 text-sm text-soft">
          The chart shows what was seen since you opened this page. This server is one of many nodes: their log is outside of it, and what a counter was can be read there.
        </p>
      )}
    </Card>
  );
}
