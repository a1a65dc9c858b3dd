// One counter: its value, its shards, where it comes from, and the proof of it.

import { useEffect, useMemo, useRef, useState } from "react";
import { asProblem, call, LONG_MS, newKey, path, query, type Page, type Problem } from "../lib/api";
import { useDescribed, type Described } from "../lib/described";
import { effectOf, whatHappened, type Event } from "../lib/events";
import { ago, clock, compact, exact, moment } from "../lib/format";
import { useLive } from "../lib/hooks";
import { pointsOf, spans, usePast, useWatched, type Point, type Span } from "../lib/history";
import { usePaged } from "../lib/pages";
import { Link } from "../lib/router";
import { Badge, Button, Card, Empty, Field, fieldLook, PageTitle, Trouble, Waiting } from "../parts/basics";
import { Chart, type Line } from "../parts/chart";
import { Confirm } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { Cell, HeadCell, Rows } from "../parts/rows";
import { ShardsPicture } from "../parts/shards";

interface Proof {
  value: string;
  recount: string;
  base: string;
  discarded: string;
  events: number;
  agrees: boolean;
  from?: string;
  store?: string;
  members?: string;
  log_begins?: string;
}

const PAGE = 200;
const EVERY_MS = 2000;

/** "video/like" is the counter of a reaction, if "video" is an item. */
function partsOf(id: string): { item: string; kind: string } | null {
  const slash = id.lastIndexOf("/");
  return slash < 0 ? null : { item: id.slice(0, slash), kind: id.slice(slash + 1) };
}

// ---- what it is ----

function Fact({ name, note, children }: { name: string; note?: string; children: React.ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-xs text-soft">{name}</dt>
      <dd className="text-sm font-medium break-words">{children}</dd>
      {note && <dd className="text-xs text-soft">{note}</dd>}
    </div>
  );
}

const policies: Record<string, string> = {
  local: "each worker its own cell",
  random: "any cell",
  "round-robin": "one cell after another",
  "least-loaded": "the cell with the least to do",
};

function Facts({ about }: { about: Described }) {
  const isItem = about.kind === "item";
  const policy = isItem ? "by user" : about.policy;
  return (
    <dl className="grid grid-cols-2 gap-4 sm:grid-cols-3">
      <Fact name="Kind">{isItem ? "reaction of an item" : "counter"}</Fact>
      <Fact name="Last written">{about.written ? <time dateTime={about.written} title={moment(about.written)}>{ago(about.written)}</time> : "never"}</Fact>
      <Fact name="Floor">{about.floor === null ? "none" : exact(about.floor)}</Fact>
      <Fact name="Shards">{about.shards}{about.shards_asked > 1 && ` (${about.shards_asked} asked for)`}</Fact>
      <Fact name="Policy" note={isItem ? "a user is always in the same shard" : policies[about.policy]}>{policy}</Fact>
      <Fact name="Last change of shards" note={about.shards_changed ? about.shards_reason : undefined}>
        {about.shards_changed ? <time dateTime={about.shards_changed} title={moment(about.shards_changed)}>{ago(about.shards_changed)}</time> : "never"}
      </Fact>
    </dl>
  );
}

// ---- the proof ----

function ProofCard({ id }: { id: string }) {
  const [proof, setProof] = useState<Proof>();
  const [problem, setProblem] = useState<Problem>();
  const [isBusy, setBusy] = useState(false);
  const recount = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      setProof(await call<Proof>(path("/v1/counters/", id, "/recount"), { method: "POST", timeoutMs: LONG_MS }));
    } catch (error) {
      setProblem(asProblem(error));
    }
    setBusy(false);
  };
  return (
    <Card title="Proof" aside={<Button icon="refresh" disabled={isBusy} onClick={() => void recount()}>{isBusy ? "Counting…" : "Recount"}</Button>}>
      <div className="flex min-h-48 flex-col p-4 text-sm" role="status">
        {isBusy && <progress className="bar mb-3" aria-label="Counting" />}
        {problem && <Trouble problem={problem} onAgain={() => void recount()} />}
        {!proof && !problem && !isBusy && <p className="text-soft">Adds up every event in the log, and compares with what is shown.</p>}
        {proof && (
          <div className="flex flex-col gap-3">
            <p className={`flex items-center gap-2 rounded-lg px-3 py-2 font-medium ${proof.agrees ? "bg-good-soft text-good" : "bg-bad-soft text-bad"}`}>
              <Icon name={proof.agrees ? "check" : "warning"} />
              {proof.agrees ? "The number is proved" : "The numbers differ"}
            </p>
            <dl className="grid grid-cols-2 gap-4">
              <Fact name="The counter says">{exact(proof.value)}</Fact>
              <Fact name="Counted from its events">{exact(proof.recount)}</Fact>
              <Fact name="Events">{exact(String(proof.events))}</Fact>
              <Fact name="Before the log begins">{exact(proof.base)}</Fact>
              {proof.store !== undefined && <Fact name="In the store">{exact(proof.store)}</Fact>}
              {proof.members !== undefined && <Fact name="Members">{exact(proof.members)}</Fact>}
            </dl>
          </div>
        )}
      </div>
    </Card>
  );
}

// ---- events, members, a moment in the past ----

const EVENT_COLUMNS = "grid-cols-[5.5rem_minmax(0,1fr)_6rem] md:grid-cols-[7rem_minmax(0,1fr)_8rem_8rem]";

function Events({ id, kind }: { id: string; kind: string | null }) {
  const events = usePaged<Event>(async (cursor, signal) => {
    const page = await call<Page & { events: Event[] }>(path("/v1/counters/", id, `/events${query({ cursor, limit: PAGE })}`), { signal });
    return { ...page, rows: page.events };
  }, id, EVERY_MS);
  return (
    <Card title="Newest events" aside={<Badge tone="good">live</Badge>}>
      {events.problem && <div className="p-4"><Trouble problem={events.problem} onAgain={events.reload} /></div>}
      {events.rows.length === 0 && events.isWhole && <Empty icon="pipeline" title="No events yet" />}
      {(events.rows.length > 0 || events.isLoading) && (
        <Rows label="Newest events" rows={events.rows} rowHeight={40} columns={EVENT_COLUMNS} keyOf={(event) => `${event.origin}-${event.sequence}`}
          onEnd={events.more} onHold={events.hold}
          foot={`${exact(String(events.rows.length))} events${events.isWhole ? "" : ", and more"}`}
          head={
            <>
              <HeadCell>When</HeadCell><HeadCell>{kind === null ? "What" : "Who and what"}</HeadCell><HeadCell className="text-right">Change</HeadCell>
              <HeadCell className="hidden text-right md:block">Cell / sequence</HeadCell>
            </>
          }>
          {(event) => (
            <>
              <Cell className="text-soft tabular-nums"><time dateTime={event.time} title={moment(event.time)}>{clock(event.time)}</time></Cell>
              <Cell>
                {event.user !== undefined && <><Link to={["users", event.user]} className="font-mono text-accent-text hover:underline">{event.user}</Link>{" "}</>}
                <span className="text-soft">{whatHappened(event)}</span>
                {event.region && <span className="text-soft"> from {event.region}</span>}
              </Cell>
              <Cell className="text-right font-medium tabular-nums">{effectOf(event, kind)}</Cell>
              <Cell className="hidden text-right text-xs text-soft tabular-nums md:block">{event.origin} / {exact(String(event.sequence))}</Cell>
            </>
          )}
        </Rows>
      )}
    </Card>
  );
}

function Members({ item, kind }: { item: string; kind: string }) {
  const members = usePaged<string>(async (cursor, signal) => {
    const page = await call<Page & { members: string[] }>(path("/v1/items/", item, `/members${query({ kind, cursor, limit: PAGE })}`), { signal });
    return { ...page, rows: page.members };
  }, `${item}/${kind}`, EVERY_MS);
  return (
    <Card title="Members" aside={<span className="text-xs text-soft">users who hold “{kind}”</span>}>
      {members.problem && <div className="p-4"><Trouble problem={members.problem} onAgain={members.reload} /></div>}
      {members.rows.length === 0 && members.isWhole && <Empty icon="users" title="Nobody" />}
      {(members.rows.length > 0 || members.isLoading) && (
        <Rows label="Members" rows={members.rows} columns="grid-cols-1" rowHeight={40} keyOf={(user) => user} onEnd={members.more}
          onHold={members.hold}
          head={<HeadCell>User</HeadCell>} foot={`${exact(String(members.rows.length))} members${members.isWhole ? "" : ", and more"}`}>
          {(user) => (
            <Cell><Link to={["users", user]} className="font-mono text-accent-text hover:underline">{user}</Link></Cell>
          )}
        </Rows>
      )}
    </Card>
  );
}

function AtTime({ id }: { id: string }) {
  const [time, setTime] = useState("");
  const [answer, setAnswer] = useState<string>();
  const [problem, setProblem] = useState<Problem>();
  const look = async () => {
    setProblem(undefined);
    try {
      const at = await call<{ value: string }>(path("/v1/counters/", id, `/at${query({ time: Date.parse(time) })}`));
      setAnswer(`${exact(at.value)} at ${moment(Date.parse(time))}`);
    } catch (error) {
      setAnswer(undefined);
      setProblem(asProblem(error));
    }
  };
  return (
    <form className="flex flex-wrap items-end gap-x-4 gap-y-2 border-t border-line px-4 py-3"
      onSubmit={(event) => { event.preventDefault(); if (time) void look(); }}>
      <div className="flex min-w-0 items-end gap-2">
        <Field label="Its value at a moment">
          <input type="datetime-local" step={1} className={fieldLook} value={time} onChange={(event) => setTime(event.target.value)} />
        </Field>
        <Button type="submit" disabled={!time}>Show</Button>
      </div>
      <p role="status" className="flex min-h-9 items-center text-sm font-medium tabular-nums">{answer}</p>
      {problem && <Trouble problem={problem} />}
    </form>
  );
}

/** Whole as long as there is room for it. */
function roundText(value: number): string {
  return Math.abs(value) < 1e9 ? exact(String(Math.round(value))) : compact(BigInt(Math.round(value)).toString());
}

function Drawing({ points, id }: { points: Point[]; id: string }) {
  const times = useMemo(() => points.map((point) => point.time), [points]);
  const lines = useMemo<Line[]>(() => [{ name: "value", colour: "accent", values: points.map((point) => point.value) }], [points]);
  return <Chart label={`The value of ${id} over time`} times={times} lines={lines} text={roundText} isFree />;
}

/** What it was: as it was seen here, or as the log has it. */
function History({ id, live }: { id: string; live: string | null | undefined }) {
  const [span, setSpan] = useState<Span>("here");
  const watched = useWatched(id, live);
  const past = usePast(id, span);
  const points = span === "here" ? watched : pointsOf(past.points, watched);
  return (
    <Card title="History" aside={
      <div className="w-60">
        <select aria-label="History shows" className={fieldLook} value={span} onChange={(event) => setSpan(event.target.value as Span)}>
          {Object.entries(spans).map(([name, { title }]) => <option key={name} value={name}>{title}</option>)}
        </select>
      </div>
    }>
      {past.problem && <div className="p-4"><Trouble problem={past.problem} /></div>}
      <Drawing points={points} id={id} />
      <AtTime id={id} />
    </Card>
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

export default function Counter({ id }: { id: string }) {
  const about = useDescribed(id, 1000);
  const live = useLive(id);
  const [isResetting, setResetting] = useState(false);
  const reaction = about.data?.kind === "item" ? partsOf(id) : null;
  const reset = async () => {
    await call(path("/v1/counters/", id, "/reset"), { json: { value: 0 }, key: newKey() });
    about.reload();
  };
  return (
    <>
      <Link to={["counters"]} className="mb-2 inline-flex items-center gap-1 rounded text-sm text-soft hover:text-ink">
        <Icon name="back" className="size-4" />Counters
      </Link>
      <PageTitle title={id} aside={about.data?.kind === "counter" && <Button look="danger" onClick={() => setResetting(true)}>Reset to 0</Button>} />
      {about.problem && <div className="mb-4"><Trouble problem={about.problem} onAgain={about.reload} /></div>}
      <div className="grid gap-4 lg:grid-cols-2">
        <Card title="Value" aside={<Pace live={live} />}>
          <div className="flex min-h-59 flex-col gap-5 p-4">
            <p className="text-4xl font-semibold tracking-tight break-all tabular-nums" aria-live="off">
              {live === undefined ? <Waiting className="h-9 w-40" /> : exact(live ?? "0")}
            </p>
            {about.data && <Facts about={about.data} />}
          </div>
        </Card>
        <Card title="Shards">
          <div className="min-h-59 p-4">
            {about.data && <ShardsPicture shards={about.data.shards} home={about.data.home} values={about.data.shard_values} />}
          </div>
        </Card>
        <History id={id} live={live} />
        <ProofCard id={id} />
      </div>
      {about.data && (
        <div className={`mt-4 grid gap-4 ${reaction ? "xl:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]" : ""}`}>
          <Events id={id} kind={reaction?.kind ?? null} />
          {reaction && <Members item={reaction.item} kind={reaction.kind} />}
        </div>
      )}
      {isResetting && (
        <Confirm title={`Reset ${id} to 0?`} action="Reset" onConfirm={reset} onClose={() => setResetting(false)}>
          The counter begins again at 0. The reset is an event like any other: what was before stays in the log, and in the proof.
        </Confirm>
      )}
    </>
  );
}
