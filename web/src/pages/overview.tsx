// How the server is: what it does each second, how long that takes, and whether all of it is well.

import { useMemo, useState } from "react";
import { recent, SAMPLES_MS, useFigures, type Column, type Samples } from "../lib/figures";
import { ago, bytes, compact, duration, exact, figure } from "../lib/format";
import { Link } from "../lib/router";
import { useIsUp } from "../lib/up";
import { lagText, useStatus, type Status } from "../lib/status";
import { Badge, Card, Field, fieldLook, Trouble, Waiting, type Tone } from "../parts/basics";
import { Chart, type Colour, type Line } from "../parts/chart";
import { Icon } from "../parts/icons";
import { useTrouble } from "../parts/notices";
import { PageTitle } from "../parts/title";
import { ms, newest } from "../parts/way";
import { verdict } from "./verdict";

const chartSpans = { "60": "the last minute", "600": "the last 10 minutes", "3600": "the last hour" };

/** To the minute: it stands in a narrow place. */
function shortMoment(time: string): string {
  return new Date(time).toLocaleString(undefined, { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });
}

const acks: Record<string, string> = {
  durable: "answers wait for the disk",
  log: "answers wait for the log",
  hot: "answers wait for Redis only",
  written: "answers wait for the operating system",
  memory: "answers wait for nothing",
};

// ---- health ----

const partNames: Record<string, string> = { open: "Doors", hot: "Counters", log: "Log", store: "Store" };

const verdictLooks: Partial<Record<Tone, string>> = { good: "bg-good-soft text-good", warn: "bg-warn-soft text-warn", bad: "bg-bad-soft text-bad" };

function Health({ status, isUp }: { status: Status | undefined; isUp: boolean }) {
  const { tone, text, to } = verdict(status, isUp);
  const rows: [string, string | undefined, string?][] = [
    ["Durability", status && status.ack, status && acks[status.ack]],
    ["Counters live in", status?.forms.hot],
    ["Log", status?.forms.log],
    ["Store", status && (status.forms.store ?? "none")],
    ["Running", status && ago(status.started).replace(" ago", ""), status && `since ${shortMoment(status.started)}`],
    ["Version", status?.version, status && `${status.workers} worker${status.workers === 1 ? "" : "s"}`],
  ];
  return (
    <section aria-label="Health" className="rounded-xl border border-line bg-panel">
      <div className="flex min-h-23 flex-wrap items-center gap-x-6 gap-y-2 border-b border-line px-4 py-3 sm:min-h-16">
        <p className="flex items-center gap-3 font-semibold">
          <span className={`grid size-9 place-items-center rounded-full ${verdictLooks[tone] ?? "bg-raised text-soft"}`}><Icon name={tone === "good" ? "check" : "warning"} /></span>
          {to ? <Link to={to} className="hover:underline">{text}</Link> : text}
        </p>
        <ul className="flex flex-wrap gap-2" aria-label="Parts">
          {status?.parts.map((part) => (
            <li key={part.name}>
              {isUp ? (
                <Badge tone={part.ok ? "good" : part.needed ? "bad" : "warn"}>
                  <Icon name={part.ok ? "check" : "warning"} className="size-3.5" />{partNames[part.name] ?? part.name}{part.ok ? "" : `: ${part.reason}`}
                </Badge>
              ) : <Badge>{partNames[part.name] ?? part.name}: unknown</Badge>}
            </li>
          ))}
        </ul>
      </div>
      <dl className="grid grid-cols-2 gap-x-4 gap-y-3 px-4 py-3 sm:grid-cols-3 xl:grid-cols-6">
        {rows.map(([name, value, note]) => (
          <div key={name} className="min-h-13 min-w-0 break-words xl:min-h-17 min-[88rem]:min-h-13">
            <dt className="text-xs text-soft">{name}</dt>
            <dd className="text-sm font-medium">{value ?? <Waiting />}</dd>
            <dd className="text-xs text-soft">{note}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

// ---- figures ----

interface Told {
  name: string;
  value: string | undefined;
  note?: string;
}

function Figure({ name, value, note, samples, column, colour = "accent" }: Told & { samples: Samples; column: Column; colour?: Colour }) {
  const lines = useMemo<Line[]>(() => [{ name, colour, values: samples[column] }], [name, colour, samples, column]);
  const times = samples.time as number[];
  return (
    <div className="rounded-xl border border-line bg-panel px-4 pt-3 pb-2">
      <p className="text-xs text-soft">{name}</p>
      <div className="flex items-end justify-between gap-3">
        <p className="min-h-8 text-2xl font-semibold tracking-tight whitespace-nowrap tabular-nums">{value ?? <Waiting className="h-6 w-16" />}</p>
        <div className="hidden h-10 w-24 shrink sm:block"><Chart label={`${name}, the last minute`} times={times} lines={lines} text={figure} everyMs={SAMPLES_MS} isBare /></div>
      </div>
      <p className="min-h-4 truncate text-xs text-soft">{note}</p>
    </div>
  );
}

function Figures({ samples, status }: { samples: Samples; status: Status | undefined }) {
  const minute = useMemo(() => recent(samples, 60), [samples]);
  const isKnown = samples.time.length > 0;
  const at = (column: Column, text: (value: number) => string) => (isKnown ? newest(samples, column, text) : undefined);
  return (
    <div className="grid grid-cols-2 gap-3 xl:grid-cols-4">
      <Figure name="Writes per second" value={at("writes", figure)} note={`half within ${at("write_p50_us", ms) ?? "…"}`} samples={minute} column="writes" />
      <Figure name="Reads per second" value={at("reads", figure)} note={`half within ${at("read_p50_us", ms) ?? "…"}`} samples={minute} column="reads" colour="good" />
      <Figure name="99 % of writes within" value={at("write_p99_us", ms)} note={`reads: ${at("read_p99_us", ms) ?? "…"}`} samples={minute} column="write_p99_us" colour="warn" />
      <Figure name="On the way to the store" value={at("lag_events", (count) => lagText(count, status?.pipeline))} note={`events, ${at("lag_ms", duration) ?? "…"} behind`} samples={minute} column="lag_events" />
    </div>
  );
}

/** What is there, and what became of the events. */
function Totals({ samples, status }: { samples: Samples; status: Status | undefined }) {
  const pipeline = status?.pipeline;
  const size = (column: Column) => newest(samples, column, bytes);
  const told: Told[] = [
    { name: "Counters", value: status && compact(String(status.counters)),
      note: status && `and ${compact(String(status.items))} item${status.items === 1 ? "" : "s"} with ${compact(String(status.members))} reactions` },
    { name: "Connections", value: newest(samples, "connections", figure) },
    { name: "Memory", value: size("resident_bytes"), note: `${size("hot_bytes")} counters` },
    { name: "Free disk space", value: status && (status.disk ? bytes(status.disk.free_bytes) : "–"), note: status?.disk ? `of ${bytes(status.disk.size_bytes)}` : undefined },
  ];
  const states: [string, number | undefined, Tone][] = [
    ["PENDING", pipeline?.pending, "plain"],
    ["SUCCESS", pipeline?.succeeded, "good"],
    ["RETRYING", pipeline?.retrying, pipeline?.retrying ? "warn" : "plain"],
    ["FAILED", pipeline?.dead_letters, pipeline?.dead_letters ? "bad" : "plain"],
  ];
  return (
    <div className="grid gap-3 xl:grid-cols-2">
      <dl className="grid grid-cols-2 gap-4 rounded-xl border border-line bg-panel px-4 py-3 sm:grid-cols-4">
        {told.map(({ name, value, note }) => (
          <div key={name} className="min-h-15 min-w-0 xl:min-h-19 min-[88rem]:min-h-15">
            <dt className="text-xs text-soft">{name}</dt>
            <dd className="text-lg font-semibold tabular-nums">{value ?? <Waiting className="h-5 w-14" />}</dd>
            <dd className="text-xs text-soft">{note}</dd>
          </div>
        ))}
      </dl>
      <section aria-label="Events by state" className="rounded-xl border border-line bg-panel px-4 py-3">
        <h2 className="text-xs text-soft">Events by state, as the store has taken them</h2>
        <ul className="mt-1 grid grid-cols-2 gap-2 sm:grid-cols-4">
          {states.map(([name, count, tone]) => (
            <li key={name}>
              <Link to={["pipeline", name]} className="block rounded-lg hover:bg-raised">
                <span className="block text-lg font-semibold tabular-nums" title={count === undefined ? undefined : exact(String(count))}>
                  {count === undefined ? "–" : compact(String(count))}
                </span>
                <Badge tone={tone}>{name}</Badge>
              </Link>
            </li>
          ))}
        </ul>
      </section>
    </div>
  );
}

// ---- charts ----

interface Drawn {
  title: string;
  lines: { column: Column; name: string; colour: Colour }[];
  text: (value: number) => string;
  legend?: typeof lagText;
  isLog?: boolean;
  isBinary?: boolean;
}

const percentiles = (what: "write" | "read"): Drawn["lines"] => [
  { column: `${what}_p50_us`, name: "50 %", colour: "good" },
  { column: `${what}_p90_us`, name: "90 %", colour: "accent" },
  { column: `${what}_p99_us`, name: "99 %", colour: "warn" },
];

const charts: Drawn[] = [
  { title: "Operations per second", text: figure, lines: [
    { column: "writes", name: "writes", colour: "accent" }, { column: "reads", name: "reads", colour: "good" },
    { column: "refused", name: "refused", colour: "warn" }, { column: "errors", name: "errors", colour: "bad" } ] },
  { title: "How long a write takes", text: ms, isLog: true, lines: percentiles("write") },
  { title: "How long a read takes", text: ms, isLog: true, lines: percentiles("read") },
  { title: "On the way from log to store", text: figure, legend: lagText, lines: [{ column: "lag_events", name: "events", colour: "accent" }] },
  { title: "Size of a flush", text: figure, lines: [{ column: "flush_events", name: "events", colour: "accent" }] },
  { title: "How long a flush takes", text: ms, isLog: true, lines: [
    { column: "flush_us", name: "to the store", colour: "accent" }, { column: "sync_us", name: "log to disk", colour: "good" } ] },
  { title: "Not in the store yet, or refused", text: figure, lines: [
    { column: "pending", name: "pending", colour: "accent" }, { column: "retrying", name: "retrying", colour: "warn" },
    { column: "dead_letters", name: "failed", colour: "bad" } ] },
  { title: "Memory", text: bytes, isBinary: true, lines: [
    { column: "resident_bytes", name: "process", colour: "accent" }, { column: "hot_bytes", name: "counters", colour: "good" } ] },
  { title: "Disk", text: bytes, isBinary: true, lines: [
    { column: "store_bytes", name: "store", colour: "accent" }, { column: "log_bytes", name: "log", colour: "good" } ] },
];

function FigureChart({ chart, samples, span, pipeline }: { chart: Drawn; samples: Samples; span: string; pipeline: Status["pipeline"] | undefined }) {
  const lines = useMemo(() => chart.lines.map(({ column, ...line }): Line => ({ ...line, values: samples[column] })), [chart, samples]);
  const legend = chart.legend && ((value: number) => chart.legend!(value, pipeline));
  return (
    <Card title={chart.title}>
      <div className="pb-2">
        <Chart label={`${chart.title}, ${span}`} times={samples.time as number[]} lines={lines} text={chart.text} legend={legend} isLog={chart.isLog} isBinary={chart.isBinary}
          everyMs={SAMPLES_MS} />
      </div>
    </Card>
  );
}

export default function Overview() {
  const { samples, problem } = useFigures();
  const [span, setSpan] = useState<keyof typeof chartSpans>("600");
  const shown = useMemo(() => recent(samples, Number(span)), [samples, span]);
  const status = useStatus(2000);
  const isUp = useIsUp();
  const trouble = problem ?? status.problem;
  const isKnown = samples.time.length > 0 && status.data !== undefined;
  useTrouble(isKnown ? trouble : undefined);
  return (
    <>
      <PageTitle title="Overview" aside={
        <Field label="Charts show">
          <select className={fieldLook} value={span} onChange={(event) => setSpan(event.target.value as keyof typeof chartSpans)}>
            {Object.entries(chartSpans).map(([seconds, name]) => <option key={seconds} value={seconds}>{name}</option>)}
          </select>
        </Field>
      }>What this server does, second by second. It remembers the last hour, also when nobody looks.</PageTitle>
      <div className="flex flex-col gap-3">
        {!isKnown && trouble && <Trouble problem={trouble} />}
        <Health status={status.data} isUp={isUp && status.problem === undefined} />
        <Figures samples={samples} status={status.data} />
        <Totals samples={samples} status={status.data} />
        <div className="grid gap-3 md:grid-cols-2 xl:grid-cols-3">
          {charts.map((chart) => <FigureChart key={chart.title} chart={chart} samples={shown} span={chartSpans[span]} pipeline={status.data?.pipeline} />)}
        </div>
      </div>
    </>
  );
}
