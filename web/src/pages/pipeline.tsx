// The way of an event: from the door to the store, what is on its way, what was refused and what to do about it.

import { useState } from "react";
import { call, newKey, path, query, type Page } from "../lib/api";
import { useFigures } from "../lib/figures";
import { ago, bytes, changeText, compact, duration, exact, moment } from "../lib/format";
import { useLoaded } from "../lib/hooks";
import { usePaged } from "../lib/pages";
import { go, Link } from "../lib/router";
import { useStatus, type Status } from "../lib/status";
import { Badge, Button, Card, Empty, Field, fieldLook, PageTitle, Trouble } from "../parts/basics";
import { Confirm, Dialog } from "../parts/dialog";
import { notify } from "../parts/notices";
import { Cell, HeadCell, Rows } from "../parts/rows";
import { stationsOf, Way } from "../parts/way";

const EVERY_MS = 2000;
const PAGE = 200;
const RETRIES = 5; // of a unit, before it is a dead letter
const LETTERS = "dead-letters"; // the place of the list of them

// ---- events ----

export interface Life {
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

const stateTones = { PENDING: "plain", SUCCESS: "good", RETRYING: "warn", FAILED: "bad", DISCARDED: "plain" } as const;
const LIFE_COLUMNS = "grid-cols-[6.5rem_minmax(0,1fr)_6rem] md:gap-x-6 md:grid-cols-[7rem_minmax(0,1fr)_11rem_4rem_minmax(0,1fr)]";

type Pipeline = Status["pipeline"];

/** How many of a state there are now; of those that are over, in all. */
function countOf(state: string, pipeline: Pipeline | undefined): number | undefined {
  if (!pipeline) return undefined;
  return { PENDING: pipeline.pending, SUCCESS: pipeline.succeeded, RETRYING: pipeline.retrying, FAILED: pipeline.dead_letters }[state];
}

export function whatComesNext(life: Life, now = Date.now()): string {
  const when = ago(life.created, now);
  if (life.state === "RETRYING") return `retry ${life.retry_count} of ${RETRIES} ${life.next ? ago(life.next, now) : "soon"}: ${life.reason ?? "refused"}`;
  if (life.state === "FAILED") return `${when}, after ${life.retry_count} retries: ${life.reason ?? "refused"}`;
  return life.processed ? `${when}, within ${duration(Date.parse(life.processed) - Date.parse(life.created))}` : when;
}

/** The states as buttons that choose, with how many are in them. */
function States({ state, pipeline, onChoose }: { state: string; pipeline: Pipeline | undefined; onChoose: (state: string) => void }) {
  return (
    <div role="group" aria-label="State" className="flex flex-wrap gap-2">
      {["", ...Object.keys(stateTones)].map((name) => {
        const count = countOf(name, pipeline);
        return (
          <button key={name} type="button" aria-pressed={state === name} onClick={() => onChoose(name)}
            className={`inline-flex h-9 items-center gap-2 rounded-lg border px-3 text-xs font-medium
              ${state === name ? "border-accent bg-accent-soft text-accent-text" : "border-line text-soft hover:bg-raised hover:text-ink"}`}>
            {name || "All"}
            {count !== undefined && <span className="tabular-nums" title={exact(String(count))}>{compact(String(count))}</span>}
          </button>
        );
      })}
    </div>
  );
}

function Events({ state, pipeline }: { state: string; pipeline: Pipeline | undefined }) {
  const [counter, setCounter] = useState("");
  const [since, setSince] = useState("");
  const [until, setUntil] = useState("");
  const asked = {
    state, counter: counter.trim(),
    since: since ? Date.parse(since) : undefined,
    until: until ? Date.parse(until) : undefined,
  };
  const lives = usePaged<Life>(async (cursor, signal) => {
    const page = await call<Page & { events: Life[] }>(`/v1/events${query({ ...asked, cursor, limit: PAGE })}`, { signal });
    return { ...page, rows: page.events };
  }, JSON.stringify(asked), EVERY_MS);
  return (
    <Card>
      <form className="flex flex-col gap-3 border-b border-line p-4" onSubmit={(event) => event.preventDefault()}>
        <States state={state} pipeline={pipeline} onChoose={(next) => (next ? go("pipeline", next) : go("pipeline"))} />
        <div className="grid grid-cols-2 gap-3 md:grid-cols-[minmax(0,1fr)_14rem_14rem]">
          <div className="col-span-2 md:col-span-1">
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
      {lives.problem && <div className="p-4"><Trouble problem={lives.problem} onAgain={lives.reload} /></div>}
      {lives.rows.length === 0 && lives.isWhole && (
        <Empty icon="pipeline" title="No such events">What is counted shows up here a moment later. <Link to={[]} className="text-accent-text underline">Like something</Link>.</Empty>
      )}
      {(lives.rows.length > 0 || lives.isLoading) && (
        <Rows label="Events" rows={lives.rows} rowHeight={48} columns={LIFE_COLUMNS} keyOf={(life) => life.event_id} onEnd={lives.more} onHold={lives.hold}
          foot={`${exact(String(lives.rows.length))} units${lives.isWhole ? "" : ", and more"}; a unit is what one batch adds to one counter`}
          head={
            <>
              <HeadCell>State</HeadCell><HeadCell>Counter</HeadCell><HeadCell className="text-right md:text-left">Change</HeadCell>
              <HeadCell className="hidden text-right md:block">Events</HeadCell><HeadCell className="hidden md:block">When, and what comes next</HeadCell>
            </>
          }>
          {(life) => (
            <>
              <Cell><Badge tone={stateTones[life.state as keyof typeof stateTones] ?? "plain"}>{life.state}</Badge></Cell>
              <Cell>
                <p className="truncate font-mono text-xs" title={life.counter}>{life.counter}</p>
                <p className="truncate text-xs text-soft md:hidden">{whatComesNext(life)}</p>
              </Cell>
              <Cell className="text-right tabular-nums md:text-left"><span title={changeText(life.delta)}>{changeText(life.delta)}</span></Cell>
              <Cell className="hidden text-right tabular-nums md:block">{exact(String(life.events))}</Cell>
              <Cell className="hidden text-soft md:block"><span title={`${moment(life.created)} ${life.reason ?? ""}`}>{whatComesNext(life)}</span></Cell>
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

const LETTER_COLUMNS = "grid-cols-[1.5rem_minmax(0,1fr)_5rem] md:grid-cols-[1.5rem_minmax(0,1fr)_8rem_minmax(0,1.5fr)_8rem_5rem]";

function Inspect({ id, onClose }: { id: string; onClose: () => void }) {
  const letter = useLoaded((signal) => call<Letter & { raw: string }>(path("/v1/dlq/", id), { signal }), id);
  return (
    <Dialog title="Dead letter" onClose={onClose}>
      {letter.problem && <Trouble problem={letter.problem} />}
      {letter.data && (
        <dl className="flex flex-col gap-3 text-sm">
          {[["Event", letter.data.event_id], ["Counter", letter.data.counter ?? "unknown"], ["Change", letter.data.delta === null ? "unknown" : changeText(letter.data.delta)],
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
    const page = await call<Page & { letters: Letter[] }>(`/v1/dlq${query({ cursor, limit: PAGE })}`, { signal });
    return { ...page, rows: page.letters };
  }, "letters", EVERY_MS);
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
    <Card>
      <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line p-4">
        <p className="min-w-48 flex-1 text-sm text-soft">What the store answered to, and refused, each time that it was tried. It waits here for a decision.</p>
        <div className="flex flex-wrap gap-2">
          <Button disabled={letters.rows.length === 0} onClick={() => setAsked("redrive")}>Try {whom} again</Button>
          <Button look="danger" disabled={letters.rows.length === 0} onClick={() => setAsked("discard")}>Discard {whom}</Button>
        </div>
      </div>
      {letters.problem && <div className="p-4"><Trouble problem={letters.problem} onAgain={letters.reload} /></div>}
      {letters.rows.length === 0 && letters.isWhole && (
        <Empty icon="check" title="No dead letters">Nothing that was counted has been refused by the store.</Empty>
      )}
      {letters.rows.length > 0 && (
        <Rows label="Dead letters" rows={letters.rows} rowHeight={48} columns={LETTER_COLUMNS} keyOf={(letter) => letter.event_id} onEnd={letters.more} onHold={letters.hold}
          foot={`${exact(String(letters.rows.length))} dead letters${letters.isWhole ? "" : ", and more"}`}
          head={
            <>
              <HeadCell><span className="sr-only">Choose</span></HeadCell><HeadCell>Counter</HeadCell>
              <HeadCell className="hidden md:block">Change</HeadCell><HeadCell className="hidden md:block">Why</HeadCell><HeadCell className="hidden md:block">Failed</HeadCell><HeadCell><span className="sr-only">Look</span></HeadCell>
            </>
          }>
          {(letter) => (
            <>
              <Cell>
                <input type="checkbox" className="size-4 accent-accent" checked={chosen.has(letter.event_id)} onChange={() => choose(letter.event_id)}
                  aria-label={`Choose ${letter.counter ?? letter.event_id}`} />
              </Cell>
              <Cell>
                <p className="truncate font-mono text-xs">{letter.counter ?? "unknown"}</p>
                <p className="truncate text-xs text-soft md:hidden">{letter.reason}</p>
              </Cell>
              <Cell className="hidden tabular-nums md:block">{letter.delta === null ? "unknown" : changeText(letter.delta)}</Cell>
              <Cell className="hidden md:block"><span title={letter.reason}>{letter.reason}</span></Cell>
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

/** Two lists, each with a place of its own. */
function Lists({ isLetters, letters }: { isLetters: boolean; letters: number | undefined }) {
  const look = (isHere: boolean) =>
    `inline-flex h-10 items-center gap-2 border-b-2 px-1 text-sm font-medium ${isHere ? "border-accent text-ink" : "border-transparent text-soft hover:text-ink"}`;
  return (
    <nav aria-label="Lists" className="mt-6 mb-3 flex gap-6 border-b border-line">
      <Link to={["pipeline"]} className={look(!isLetters)} aria-current={isLetters ? undefined : "true"}>Events</Link>
      <Link to={["pipeline", LETTERS]} className={look(isLetters)} aria-current={isLetters ? "true" : undefined}>
        Dead letters{letters !== undefined && letters > 0 && <Badge tone="bad">{exact(String(letters))}</Badge>}
      </Link>
    </nav>
  );
}

export default function Pipeline({ list = "" }: { list?: string }) {
  const { samples } = useFigures(60);
  const status = useStatus(EVERY_MS).data;
  const isLetters = list === LETTERS;
  return (
    <>
      <PageTitle title="Pipeline">What was acknowledged is in the log. From there it reaches the store exactly once, whatever is restarted in between.</PageTitle>
      <Way stations={stationsOf(samples, status?.forms)} />
      <Lists isLetters={isLetters} letters={status?.pipeline?.dead_letters} />
      {isLetters ? <DeadLetters /> : <Events state={list in stateTones ? list : ""} pipeline={status?.pipeline} />}
    </>
  );
}
