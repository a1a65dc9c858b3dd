// The way of an event: from the door to the store, what is on its way, what was refused and what to do about it.

import { useState } from "react";
import { call, newKey, path, query, type Page } from "../lib/api";
import { last, useFigures, type Samples } from "../lib/figures";
import { ago, bytes, duration, exact, figure, moment } from "../lib/format";
import { useLoaded } from "../lib/hooks";
import { usePaged } from "../lib/pages";
import { Link } from "../lib/router";
import { Badge, Button, Card, Empty, Field, fieldLook, PageTitle, Trouble } from "../parts/basics";
import { Confirm, Dialog } from "../parts/dialog";
import { Icon, type IconName } from "../parts/icons";
import { notify } from "../parts/notices";
import { Cell, HeadCell, Rows } from "../parts/rows";

// ---- the picture ----

interface Station {
  name: string;
  icon: IconName;
  does: string;
  value: string;
  note: string;
}

function stationsOf(samples: Samples): Station[] {
  const at = (column: Parameters<typeof last>[1], text: (value: number) => string, none = "–") => {
    const value = last(samples, column);
    return value === null ? none : text(value);
  };
  const ms = (us: number) => duration(us / 1000);
  return [
    { name: "Door", icon: "feed", does: "takes requests", value: `${at("writes", figure)} writes/s`, note: `${at("connections", figure)} connections` },
    { name: "Hot", icon: "counters", does: "checks, counts, makes an event", value: at("hot_bytes", bytes), note: "of counters in memory" },
    { name: "Log", icon: "overview", does: "keeps it; now it is acknowledged", value: `${at("sync_us", ms)} to be safe`, note: `${at("log_bytes", bytes)} of log` },
    { name: "Aggregator", icon: "pipeline", does: "gathers a batch", value: `${at("lag_events", figure)} on the way`, note: `${at("flush_events", figure)} events a flush` },
    { name: "Store", icon: "check", does: "applies it, once", value: `${at("flush_us", ms)} a flush`, note: `${at("store_bytes", bytes)} of rows` },
  ];
}

function Picture() {
  const { samples } = useFigures();
  return (
    <ol aria-label="The way of an event" className="mb-4 grid gap-2 sm:grid-cols-5">
      {stationsOf(samples).map((station, i) => (
        <li key={station.name} className="relative rounded-xl border border-line bg-panel p-3">
          <p className="flex items-center gap-2 text-sm font-semibold">
            <span className="text-accent-text"><Icon name={station.icon} className="size-4" /></span>{station.name}
          </p>
          <p className="text-xs text-soft">{station.does}</p>
          <p className="mt-2 text-sm font-medium tabular-nums">{station.value}</p>
          <p className="text-xs text-soft tabular-nums">{station.note}</p>
          {i > 0 && (
            <span aria-hidden="true" className="absolute top-1/2 -left-3.5 hidden -translate-y-1/2 rounded-full bg-ground text-soft sm:block">
              <Icon name="next" className="size-5" />
            </span>
          )}
        </li>
      ))}
    </ol>
  );
}

// ---- events ----

interface Life {
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

const stateTones = { SUCCESS: "good", PENDING: "plain", RETRYING: "warn", FAILED: "bad", DISCARDED: "plain" } as const;
const LIFE_COLUMNS = "grid-cols-[6.5rem_minmax(0,1fr)_6rem] md:grid-cols-[7rem_minmax(0,1fr)_9rem_5rem_minmax(0,12rem)]";

function whatComesNext(life: Life): string {
  if (life.state === "RETRYING") return `retry ${life.retry_count + 1} ${life.next ? ago(life.next) : "soon"}${life.reason ? `: ${life.reason}` : ""}`;
  if (life.processed) return `after ${duration(Date.parse(life.processed) - Date.parse(life.created))}`;
  return life.reason ?? "";
}

function Events() {
  const [state, setState] = useState("");
  const [counter, setCounter] = useState("");
  const [since, setSince] = useState("");
  const [until, setUntil] = useState("");
  const asked = {
    state, counter: counter.trim(),
    since: since ? Date.parse(since) : undefined,
    until: until ? Date.parse(until) : undefined,
  };
  const lives = usePaged<Life>(async (cursor, signal) => {
    const page = await call<Page & { events: Life[] }>(`/v1/events${query({ ...asked, cursor, limit: 200 })}`, { signal });
    return { ...page, rows: page.events };
  }, JSON.stringify(asked));
  return (
    <Card title="Events" aside={<Button look="quiet" icon="refresh" onClick={lives.reload}>Look again</Button>}>
      <form className="grid grid-cols-2 gap-3 border-b border-line p-4 md:grid-cols-4" onSubmit={(event) => event.preventDefault()}>
        <Field label="State">
          <select className={fieldLook} value={state} onChange={(event) => setState(event.target.value)}>
            <option value="">all</option>
            {Object.keys(stateTones).map((name) => <option key={name}>{name}</option>)}
          </select>
        </Field>
        <Field label="Counter or item">
          <input className={fieldLook} value={counter} spellCheck={false} autoComplete="off" placeholder="all" onChange={(event) => setCounter(event.target.value)} />
        </Field>
        <Field label="Not before">
          <input type="datetime-local" step={1} className={fieldLook} value={since} onChange={(event) => setSince(event.target.value)} />
        </Field>
        <Field label="Not after">
          <input type="datetime-local" step={1} className={fieldLook} value={until} onChange={(event) => setUntil(event.target.value)} />
        </Field>
      </form>
      {lives.problem && <div className="p-4"><Trouble problem={lives.problem} onAgain={lives.reload} /></div>}
      {lives.rows.length === 0 && lives.isWhole && (
        <Empty icon="pipeline" title="No such events">What is counted shows up here a moment later. <Link to={[]} className="text-accent-text underline">Like something</Link>.</Empty>
      )}
      {lives.rows.length > 0 && (
        <Rows label="Events" rows={lives.rows} columns={LIFE_COLUMNS} keyOf={(life) => life.event_id} onEnd={lives.more}
          head={
            <>
              <HeadCell>State</HeadCell><HeadCell>Counter</HeadCell><HeadCell>Change</HeadCell>
              <HeadCell className="hidden md:block">Events</HeadCell><HeadCell className="hidden md:block">When</HeadCell>
            </>
          }>
          {(life) => (
            <>
              <Cell><Badge tone={stateTones[life.state as keyof typeof stateTones] ?? "plain"}>{life.state}</Badge></Cell>
              <Cell className="font-mono text-xs"><span title={life.counter}>{life.counter}</span></Cell>
              <Cell className="font-mono text-xs"><span title={life.delta}>{life.delta}</span></Cell>
              <Cell className="hidden tabular-nums md:block">{exact(String(life.events))}</Cell>
              <Cell className="hidden text-soft md:block"><span title={moment(life.created)}>{ago(life.created)}, {whatComesNext(life)}</span></Cell>
            </>
          )}
        </Rows>
      )}
    </Card>
  );
}

// ---- dead letters ----

interface Letter {
  event_id: string;
  counter: string | null;
  delta: string | null;
  reason: string;
  retry_count: number;
  created: string | null;
  failed: string | null;
  size_bytes: number;
}

type Verb = "redrive" | "discard";

const LETTER_COLUMNS = "grid-cols-[1.5rem_minmax(0,1fr)_minmax(0,1fr)_5rem] md:grid-cols-[1.5rem_minmax(0,1fr)_minmax(0,2fr)_8rem_5rem]";

function Inspect({ id, onClose }: { id: string; onClose: () => void }) {
  const letter = useLoaded((signal) => call<Letter & { raw: string }>(path("/v1/dlq/", id), { signal }), id);
  return (
    <Dialog title="Dead letter" onClose={onClose}>
      {letter.problem && <Trouble problem={letter.problem} />}
      {letter.data && (
        <dl className="flex flex-col gap-3 text-sm">
          {[["Event", letter.data.event_id], ["Counter", letter.data.counter ?? "unknown"], ["Change", letter.data.delta ?? "unknown"],
            ["Why it was refused", letter.data.reason], ["Retries", String(letter.data.retry_count)],
            ["Failed", letter.data.failed ? moment(letter.data.failed) : "–"]].map(([name, value]) => (
            <div key={name}><dt className="text-xs text-soft">{name}</dt><dd className="break-words">{value}</dd></div>
          ))}
          <div>
            <dt className="text-xs text-soft">Its bytes, {bytes(letter.data.size_bytes)}</dt>
            <dd className="max-h-40 overflow-y-auto rounded bg-raised p-2 font-mono text-xs break-all" tabIndex={0}>{letter.data.raw}</dd>
          </div>
        </dl>
      )}
      <div className="mt-4 flex justify-end"><Button onClick={onClose}>Close</Button></div>
    </Dialog>
  );
}

function DeadLetters() {
  const letters = usePaged<Letter>(async (cursor, signal) => {
    const page = await call<Page & { letters: Letter[] }>(`/v1/dlq${query({ cursor, limit: 200 })}`, { signal });
    return { ...page, rows: page.letters };
  }, "letters");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [inspected, setInspected] = useState<string>();
  const [asked, setAsked] = useState<Verb>();
  const choose = (id: string) =>
    setChosen((before) => {
      const next = new Set(before);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  const deal = async (verb: Verb) => {
    const ids = chosen.size > 0 ? [...chosen] : null;
    if (ids === null) await call(`/v1/dlq/${verb}`, { method: "POST", key: newKey() });
    for (const id of ids ?? []) await call(path("/v1/dlq/", id), { method: verb === "redrive" ? "POST" : "DELETE", key: newKey() });
    notify("good", verb === "redrive" ? "They are tried again." : "They are discarded.");
    setChosen(new Set());
    letters.reload();
  };
  const whom = chosen.size === 0 ? "all" : `${chosen.size} chosen`;
  return (
    <Card title="Dead letters" aside={
      <div className="flex flex-wrap gap-2">
        <Button look="quiet" icon="refresh" onClick={letters.reload}>Look again</Button>
        <Button disabled={letters.rows.length === 0} onClick={() => setAsked("redrive")}>Try {whom} again</Button>
        <Button look="danger" disabled={letters.rows.length === 0} onClick={() => setAsked("discard")}>Discard {whom}</Button>
      </div>
    }>
      {letters.problem && <div className="p-4"><Trouble problem={letters.problem} onAgain={letters.reload} /></div>}
      {letters.rows.length === 0 && letters.isWhole && (
        <Empty icon="check" title="No dead letters">Here lies what the store has refused after all retries. Nothing has been.</Empty>
      )}
      {letters.rows.length > 0 && (
        <Rows label="Dead letters" rows={letters.rows} columns={LETTER_COLUMNS} keyOf={(letter) => letter.event_id} onEnd={letters.more}
          head={
            <>
              <HeadCell><span className="sr-only">Choose</span></HeadCell><HeadCell>Counter</HeadCell><HeadCell>Why</HeadCell>
              <HeadCell className="hidden md:block">Failed</HeadCell><HeadCell><span className="sr-only">Look</span></HeadCell>
            </>
          }>
          {(letter) => (
            <>
              <Cell>
                <input type="checkbox" className="size-4 accent-accent" checked={chosen.has(letter.event_id)} onChange={() => choose(letter.event_id)}
                  aria-label={`Choose ${letter.counter ?? letter.event_id}`} />
              </Cell>
              <Cell className="font-mono text-xs">{letter.counter ?? "unknown"}</Cell>
              <Cell><span title={letter.reason}>{letter.reason}</span></Cell>
              <Cell className="hidden text-soft md:block">{letter.failed ? ago(letter.failed) : "–"}</Cell>
              <Cell><button type="button" className="rounded px-1 text-accent-text hover:underline" onClick={() => setInspected(letter.event_id)}>Inspect</button></Cell>
            </>
          )}
        </Rows>
      )}
      {inspected && <Inspect id={inspected} onClose={() => setInspected(undefined)} />}
      {asked && (
        <Confirm title={asked === "redrive" ? `Try ${whom} again?` : `Discard ${whom}?`} action={asked === "redrive" ? "Try again" : "Discard"}
          onConfirm={() => deal(asked)} onClose={() => setAsked(undefined)}>
          {asked === "redrive" ? "Each goes back into the pipeline, with all its retries before it." : "They will never be counted; the audit trail says so. This cannot be taken back."}
        </Confirm>
      )}
    </Card>
  );
}

export default function Pipeline() {
  return (
    <>
      <PageTitle title="Pipeline">What was acknowledged is in the log. From there it reaches the store exactly once, whatever is restarted in between.</PageTitle>
      <Picture />
      <div className="flex flex-col gap-4">
        <DeadLetters />
        <Events />
      </div>
    </>
  );
}
