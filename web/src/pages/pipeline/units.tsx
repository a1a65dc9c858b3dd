// The list of events on their way to the store: what became of each, what is tried again, and when.

import { useState } from "react";
import { call, query, type Page } from "../../lib/api";
import { useHasDemo } from "../../lib/demo";
import { ago, changeText, compact, duration, exact, moment } from "../../lib/format";
import { TYPING_MS, useSettled } from "../../lib/hooks";
import { usePaged } from "../../lib/pages";
import { go, Link } from "../../lib/router";
import type { Status } from "../../lib/status";
import { Badge, Card, Empty, Field, fieldLook } from "../../parts/basics";
import { PagedList } from "../../parts/paged";
import { Cell, HeadCell } from "../../parts/rows";

const EVERY_MS = 2000;
const PAGE = 200;

/** What one batch adds to one counter. */
export interface Unit {
  event_id: string;
  counter: string;
  delta: string;
  state: string;
  retry_count: number;
  events: number;
  created: string;
  processed: string | null;
  next: string | null;
  reason: string | null;
}

export const stateTones = { PENDING: "plain", SUCCESS: "good", RETRYING: "warn", FAILED: "bad", DISCARDED: "plain" } as const;
const COLUMNS = "grid-cols-[minmax(0,1fr)_7.5rem] md:gap-x-6 md:grid-cols-[7rem_minmax(0,1fr)_11rem_4rem_minmax(0,1fr)]";

type Totals = Status["pipeline"];

const counted = ["PENDING", "SUCCESS", "RETRYING", "FAILED"]; // there is room for their numbers before they are known

/** How many of a state there are now; of those that are over, in all. */
function countOf(state: string, totals: Totals | undefined): number | undefined {
  if (!totals) return undefined;
  return { PENDING: totals.pending, SUCCESS: totals.succeeded, RETRYING: totals.retrying, FAILED: totals.dead_letters }[state];
}

export function whatComesNext(unit: Unit, now = Date.now()): string {
  const when = ago(unit.created, now);
  if (unit.state === "RETRYING") return `retry ${unit.retry_count} ${unit.next ? ago(unit.next, now) : "soon"}: ${unit.reason ?? "refused"}`;
  if (unit.state === "FAILED") return `${when}, after ${unit.retry_count} retries: ${unit.reason ?? "refused"}`;
  return unit.processed ? `${when}, within ${duration(Date.parse(unit.processed) - Date.parse(unit.created))}` : when;
}

/** The states as buttons that choose, with how many are in them. */
function States({ state, totals, onChoose }: { state: string; totals: Totals | undefined; onChoose: (state: string) => void }) {
  return (
    <div role="group" aria-label="State" className="flex flex-wrap gap-2">
      {["", ...Object.keys(stateTones)].map((name) => {
        const count = countOf(name, totals);
        return (
          <button key={name} type="button" aria-pressed={state === name} onClick={() => onChoose(name)}
            className={`inline-flex h-9 items-center gap-2 rounded-lg border px-3 text-xs font-medium
              ${state === name ? "border-accent bg-accent-soft text-accent-text" : "border-line text-soft hover:bg-raised hover:text-ink"}`}>
            {name || "All"}
            {counted.includes(name) && (
              <span className="min-w-7 text-left tabular-nums" title={count === undefined ? undefined : exact(String(count))}>{count === undefined ? "–" : compact(String(count))}</span>
            )}
          </button>
        );
      })}
    </div>
  );
}

export function Units({ state, totals }: { state: string; totals: Totals | undefined }) {
  const hasDemo = useHasDemo();
  const [counter, setCounter] = useState("");
  const [since, setSince] = useState("");
  const [until, setUntil] = useState("");
  const asked = {
    state, counter: useSettled(counter.trim(), TYPING_MS),
    since: since ? Date.parse(since) : undefined,
    until: until ? Date.parse(until) : undefined,
  };
  const units = usePaged<Unit>(async (cursor, signal) => {
    const page = await call<Page & { events: Unit[] }>(`/v1/events${query({ ...asked, cursor, limit: PAGE })}`, { signal });
    return { ...page, rows: page.events };
  }, JSON.stringify(asked), EVERY_MS);
  return (
    <Card>
      <form className="flex flex-col gap-3 border-b border-line p-4" onSubmit={(event) => event.preventDefault()}>
        <States state={state} totals={totals} onChoose={(next) => (next ? go("pipeline", next) : go("pipeline"))} />
        <div className="grid grid-cols-1 gap-3 sm:grid-cols-2 md:grid-cols-[minmax(0,1fr)_14rem_14rem]">
          <div className="sm:col-span-2 md:col-span-1">
            <Field label="Counter or item">
              <input className={fieldLook} value={counter} spellCheck={false} autoComplete="off" placeholder="all" onChange={(event) => setCounter(event.target.value)} />
            </Field>
          </div>
          <Field label="Not before">
            <input type="datetime-local" step={1} className={fieldLook} value={since} onChange={(event) => setSince(event.target.value)} />
          </Field>
          <Field label="Not after">
            <input type="datetime-local" step={1} className={fieldLook} value={until} onChange={(event) => setUntil(event.target.value)} />
          </Field>
        </div>
      </form>
      <PagedList label="Events" paged={units} things="units" note="; a unit is what one batch adds to one counter" rowHeight={48} columns={COLUMNS} keyOf={(unit) => unit.event_id}
        empty={<Empty icon="pipeline" title="No such events">What is counted shows up here a moment later.{hasDemo && <> <Link to={[]} className="text-accent-text underline">Like something</Link>.</>}</Empty>}
        head={
          <>
            <HeadCell className="order-last text-right md:order-none md:text-left">State</HeadCell><HeadCell>Counter</HeadCell><HeadCell className="hidden md:block">Change</HeadCell>
            <HeadCell className="hidden text-right md:block">Events</HeadCell><HeadCell className="hidden md:block">When, and what comes next</HeadCell>
          </>
        }>
        {(unit) => (
          <>
            <Cell className="order-last text-right md:order-none md:text-left">
              <Badge tone={stateTones[unit.state as keyof typeof stateTones] ?? "plain"}>{unit.state}</Badge>
              <p className="truncate text-xs tabular-nums md:hidden">{changeText(unit.delta)}</p>
            </Cell>
            <Cell>
              <p className="truncate font-mono text-xs" title={unit.counter}>{unit.counter}</p>
              <p className="truncate text-xs text-soft md:hidden">{whatComesNext(unit)}</p>
            </Cell>
            <Cell className="hidden tabular-nums md:block"><span title={changeText(unit.delta)}>{changeText(unit.delta)}</span></Cell>
            <Cell className="hidden text-right tabular-nums md:block">{exact(String(unit.events))}</Cell>
            <Cell className="hidden text-soft md:block"><span title={`${moment(unit.created)} ${unit.reason ?? ""}`}>{whatComesNext(unit)}</span></Cell>
          </>
        )}
      </PagedList>
    </Card>
  );
}
