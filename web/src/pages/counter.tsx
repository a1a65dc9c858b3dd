// One counter: its value, its shards, where it comes from, and the proof of it.

import { useState } from "react";
import { asProblem, call, newKey, path, query, type Page, type Problem } from "../lib/api";
import { ago, exact, moment } from "../lib/format";
import { useLive, useLoaded } from "../lib/hooks";
import { usePaged } from "../lib/pages";
import { Link } from "../lib/router";
import { Badge, Button, Card, Empty, Field, fieldLook, PageTitle, Trouble, Waiting } from "../parts/basics";
import { Confirm } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { Cell, HeadCell, Rows } from "../parts/rows";
import { ShardsPicture } from "../parts/shards";

interface Described {
  id: string;
  kind: "item" | "counter";
  shards: number;
  shards_asked: number;
  policy: string;
  floor: string | null;
  idle_s: number;
  home: number;
  expires: string | null;
  written: string | null;
  shards_changed: string | null;
  shards_reason: string;
  shard_values: string[] | null;
}

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

interface Event {
  time: string;
  origin: number;
  sequence: number;
  type: string;
  user?: string;
  before?: string | null;
  after?: string | null;
  delta?: string;
  value?: string;
  key?: string;
  region?: string;
}

/** "video/like" is the counter of a reaction, if "video" is an item. */
function partsOf(id: string): { item: string; kind: string } | null {
  const slash = id.lastIndexOf("/");
  return slash < 0 ? null : { item: id.slice(0, slash), kind: id.slice(slash + 1) };
}

// ---- what it is ----

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-xs text-soft">{name}</dt>
      <dd className="text-sm font-medium break-words">{children}</dd>
    </div>
  );
}

function Facts({ about }: { about: Described }) {
  return (
    <dl className="grid grid-cols-2 gap-4 p-4 sm:grid-cols-3">
      <Fact name="Kind">{about.kind === "item" ? "reaction of an item" : "counter"}</Fact>
      <Fact name="Shards">{about.shards}{about.shards_asked > 1 && ` (${about.shards_asked} asked for)`}</Fact>
      <Fact name="Policy">{about.kind === "item" ? "by user" : about.policy}</Fact>
      <Fact name="Last written">{about.written ? <time dateTime={about.written} title={moment(about.written)}>{ago(about.written)}</time> : "never"}</Fact>
      <Fact name="Shards last changed">
        {about.shards_changed ? `${ago(about.shards_changed)}: ${about.shards_reason}` : "never"}
      </Fact>
      <Fact name="Floor">{about.floor === null ? "none" : exact(about.floor)}</Fact>
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
      setProof(await call<Proof>(path("/v1/counters/", id, "/recount"), { method: "POST" }));
    } catch (error) {
      setProblem(asProblem(error));
    }
    setBusy(false);
  };
  return (
    <Card title="Proof" aside={<Button icon="refresh" disabled={isBusy} onClick={() => void recount()}>{isBusy ? "Counting…" : "Recount"}</Button>}>
      <div className="p-4 text-sm" role="status">
        {isBusy && <progress className="bar mb-3" aria-label="Counting" />}
        {problem && <Trouble problem={problem} onAgain={() => void recount()} />}
        {!proof && !problem && !isBusy && <p className="text-soft">Adds up every event in the log, and compares with what is shown.</p>}
        {proof && (
          <div className="flex flex-col gap-3">
            <p className={`flex items-center gap-2 font-medium ${proof.agrees ? "text-good" : "text-bad"}`}>
              <Icon name={proof.agrees ? "check" : "warning"} />
              {proof.agrees ? "The number is proved" : "The numbers differ"}
            </p>
            <dl className="grid grid-cols-2 gap-4">
              <Fact name="Shown">{exact(proof.value)}</Fact>
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

const EVENT_COLUMNS = "grid-cols-[7rem_minmax(0,1fr)] sm:grid-cols-[11rem_minmax(0,1fr)_10rem]";

function whatHappened(event: Event): string {
  if (event.type === "react")
    return `${event.user}: ${event.before ?? "nothing"} → ${event.after ?? "nothing"}`;
  if (event.delta !== undefined) return `${event.type} ${event.delta.startsWith("-") ? "" : "+"}${event.delta}`;
  return event.value !== undefined ? `${event.type} to ${event.value}` : event.type;
}

function Events({ id }: { id: string }) {
  const events = usePaged<Event>(async (cursor, signal) => {
    const page = await call<Page & { events: Event[] }>(path("/v1/counters/", id, `/events${query({ cursor, limit: 200 })}`), { signal });
    return { ...page, rows: page.events };
  }, id);
  return (
    <Card title="Newest events" aside={<Button look="quiet" icon="refresh" onClick={events.reload}>Look again</Button>}>
      {events.problem && <div className="p-4"><Trouble problem={events.problem} onAgain={events.reload} /></div>}
      {events.rows.length === 0 && events.isWhole && <Empty icon="pipeline" title="No events yet" />}
      {events.rows.length > 0 && (
        <Rows label="Newest events" rows={events.rows} columns={EVENT_COLUMNS} keyOf={(event) => `${event.origin}-${event.sequence}`}
          onEnd={events.more}
          head={<><HeadCell>When</HeadCell><HeadCell>What</HeadCell><HeadCell className="hidden sm:block">Origin and sequence</HeadCell></>}>
          {(event) => (
            <>
              <Cell><time dateTime={event.time} title={event.time}>{moment(event.time)}</time></Cell>
              <Cell className="font-mono text-xs">{whatHappened(event)}</Cell>
              <Cell className="hidden font-mono text-xs text-soft sm:block">{event.origin} / {event.sequence}</Cell>
            </>
          )}
        </Rows>
      )}
    </Card>
  );
}

function Members({ item, kind }: { item: string; kind: string }) {
  const members = usePaged<string>(async (cursor, signal) => {
    const page = await call<Page & { members: string[] }>(path("/v1/items/", item, `/members${query({ kind, cursor, limit: 500 })}`), { signal });
    return { ...page, rows: page.members };
  }, `${item}/${kind}`);
  return (
    <Card title="Members" aside={<Button look="quiet" icon="refresh" onClick={members.reload}>Look again</Button>}>
      {members.problem && <div className="p-4"><Trouble problem={members.problem} onAgain={members.reload} /></div>}
      {members.rows.length === 0 && members.isWhole && <Empty icon="users" title="Nobody" />}
      {members.rows.length > 0 && (
        <Rows label="Members" rows={members.rows} columns="grid-cols-1" rowHeight={36} keyOf={(user) => user} onEnd={members.more}
          head={<HeadCell>User</HeadCell>} foot={`${exact(String(members.rows.length))}${members.isWhole ? "" : " or more"}`}>
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
    <Card title="At another time">
      <form className="flex flex-col gap-3 p-4" onSubmit={(event) => { event.preventDefault(); if (time) void look(); }}>
        <div className="flex items-end gap-2">
          <Field label="When">
            <input type="datetime-local" step={1} className={fieldLook} value={time} onChange={(event) => setTime(event.target.value)} />
          </Field>
          <Button type="submit" disabled={!time}>Show</Button>
        </div>
        <p role="status" className="text-sm font-medium tabular-nums">{answer}</p>
        {problem && <Trouble problem={problem} />}
      </form>
    </Card>
  );
}

export default function Counter({ id }: { id: string }) {
  const about = useLoaded((signal) => call<Described>(path("/v1/counters/", id, "/describe"), { signal }), id, 2000);
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
        <Card className="lg:row-span-2">
          <div className="border-b border-line p-4">
            <p className="text-xs text-soft">Value</p>
            <p className="text-3xl font-semibold tracking-tight break-all tabular-nums" aria-live="off">
              {live === undefined ? <Waiting className="h-8 w-32" /> : exact(live ?? "0")}
            </p>
            <p className="mt-1"><Badge tone="good">live</Badge></p>
          </div>
          {about.data && <Facts about={about.data} />}
          {about.data && <ShardsPicture shards={about.data.shards} home={about.data.home} values={about.data.shard_values ?? []} />}
        </Card>
        <ProofCard id={id} />
        <AtTime id={id} />
        {reaction && <Members item={reaction.item} kind={reaction.kind} />}
        <div className={reaction ? "" : "lg:col-span-2"}><Events id={id} /></div>
      </div>
      {isResetting && (
        <Confirm title={`Reset ${id} to 0?`} action="Reset" onConfirm={reset} onClose={() => setResetting(false)}>
          The counter begins again at 0. The reset is an event like any other: what was before stays in the log, and in the proof.
        </Confirm>
      )}
    </>
  );
}
