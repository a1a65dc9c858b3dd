// How the server is: what it does each second, how long that takes, and whether all of it is well.

import { useMemo, useState } from "react";
import { call } from "../lib/api";
import { last, recent, useFigures, type Column, type Samples } from "../lib/figures";
import { ago, bytes, compact, duration, exact, figure, moment } from "../lib/format";
import { useLoaded } from "../lib/hooks";
import { Badge, Card, Field, fieldLook, PageTitle, Trouble, Waiting } from "../parts/basics";
import { Chart, type Line } from "../parts/chart";
import { Icon } from "../parts/icons";

interface Status {
  version: string;
  started: string;
  workers: number;
  counters: number;
  items: number;
  members: number;
  ack: string;
  forms: { hot: string; log: string; store: string | null };
  disk: { free_bytes: number; size_bytes: number } | null;
  resident_bytes: number;
  parts: { name: string; ok: boolean; needed: boolean; reason: string }[];
  pipeline: { pending: number; succeeded: number; retrying: number; dead_letters: number } | null;
}

const spans = { "60": "the last minute", "600": "the last 10 minutes", "3600": "the last hour" };

const acks: Record<string, string> = {
  durable: "answers wait for the disk",
  log: "answers wait for the log",
  hot: "answers wait for Redis only",
  written: "answers wait for the operating system",
  memory: "answers wait for nothing",
};

const ms = (us: number) => duration(us / 1000);

// ---- figures ----

function Figure({ name, value, note }: { name: string; value: string | undefined; note?: string }) {
  return (
    <div className="rounded-xl border border-line bg-panel px-4 py-3">
      <p className="text-xs text-soft">{name}</p>
      <p className="mt-0.5 text-xl font-semibold tracking-tight tabular-nums">{value ?? <Waiting className="h-6 w-16" />}</p>
      <p className="min-h-4 truncate text-xs text-soft">{note}</p>
    </div>
  );
}

function textOf(samples: Samples, column: Column, text: (value: number) => string): string | undefined {
  if (samples.time.length === 0) return undefined;
  const value = last(samples, column);
  return value === null ? "–" : text(value);
}

function Figures({ samples, status }: { samples: Samples; status: Status | undefined }) {
  const at = (column: Column, text: (value: number) => string) => textOf(samples, column, text);
  const disk = status?.disk;
  return (
    <div className="grid grid-cols-2 gap-3 md:grid-cols-4">
      <Figure name="Writes per second" value={at("writes", figure)} note={`99 % within ${at("write_p99_us", ms) ?? "…"}`} />
      <Figure name="Reads per second" value={at("reads", figure)} note={`99 % within ${at("read_p99_us", ms) ?? "…"}`} />
      <Figure name="On the way to the store" value={at("lag_events", figure)} note={`events, ${at("lag_ms", duration) ?? "…"} behind`} />
      <Figure name="Connections" value={at("connections", figure)} />
      <Figure name="Counters" value={status && compact(String(status.counters + status.items))}
        note={status && `${compact(String(status.members))} reactions`} />
      <Figure name="Memory" value={at("resident_bytes", bytes)} note={`${at("hot_bytes", bytes) ?? "…"} of it counters`} />
      <Figure name="On disk" value={at("store_bytes", bytes)} note={`and ${at("log_bytes", bytes) ?? "…"} of log`} />
      <Figure name="Free space" value={status && (disk ? bytes(disk.free_bytes) : "–")} note={disk ? `of ${bytes(disk.size_bytes)}` : undefined} />
    </div>
  );
}

// ---- health ----

const partNames: Record<string, string> = { open: "doors", hot: "counters", log: "log", store: "store" };

function Health({ status }: { status: Status }) {
  return (
    <Card title="Health">
      <ul className="divide-y divide-line">
        {status.parts.map((part) => (
          <li key={part.name} className="flex items-center gap-3 px-4 py-2.5 text-sm">
            <span className={part.ok ? "text-good" : part.needed ? "text-bad" : "text-warn"}><Icon name={part.ok ? "check" : "warning"} /></span>
            <span className="font-medium">{partNames[part.name] ?? part.name}</span>
            <span className="min-w-0 flex-1 text-right break-words text-soft">{part.ok ? "well" : part.reason}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function About({ status }: { status: Status }) {
  const rows: [string, string][] = [
    ["Durability", `${status.ack}: ${acks[status.ack] ?? ""}`],
    ["Counters live in", status.forms.hot],
    ["Log", status.forms.log],
    ["Store", status.forms.store ?? "none"],
    ["Running since", `${moment(status.started)} (${ago(status.started)})`],
    ["Version", `${status.version}, ${status.workers} worker${status.workers === 1 ? "" : "s"}`],
  ];
  return (
    <Card title="This server">
      <dl className="divide-y divide-line">
        {rows.map(([name, value]) => (
          <div key={name} className="flex gap-3 px-4 py-2.5 text-sm">
            <dt className="w-36 shrink-0 text-soft">{name}</dt>
            <dd className="min-w-0 break-words">{value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

function States({ pipeline }: { pipeline: NonNullable<Status["pipeline"]> }) {
  const states: [string, number, "plain" | "good" | "warn" | "bad"][] = [
    ["Pending", pipeline.pending, "plain"],
    ["Success", pipeline.succeeded, "good"],
    ["Retrying", pipeline.retrying, pipeline.retrying > 0 ? "warn" : "plain"],
    ["Failed", pipeline.dead_letters, pipeline.dead_letters > 0 ? "bad" : "plain"],
  ];
  return (
    <Card title="Events by state">
      <ul className="divide-y divide-line">
        {states.map(([name, count, tone]) => (
          <li key={name} className="flex items-center justify-between px-4 py-2.5 text-sm">
            <Badge tone={tone}>{name}</Badge>
            <span className="font-medium tabular-nums">{exact(String(count))}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

// ---- charts ----

interface Drawn {
  title: string;
  lines: Line[];
  text: (value: number) => string;
}

const charts: Drawn[] = [
  { title: "Operations per second", text: figure, lines: [
    { column: "writes", name: "Writes", colour: "accent" }, { column: "reads", name: "Reads", colour: "good" },
    { column: "refused", name: "Refused", colour: "warn" }, { column: "errors", name: "Errors", colour: "bad" } ] },
  { title: "Time of a write", text: ms, lines: [
    { column: "write_p50_us", name: "Half within", colour: "good" }, { column: "write_p90_us", name: "90 %", colour: "accent" },
    { column: "write_p99_us", name: "99 %", colour: "warn" } ] },
  { title: "Time of a read", text: ms, lines: [
    { column: "read_p50_us", name: "Half within", colour: "good" }, { column: "read_p90_us", name: "90 %", colour: "accent" },
    { column: "read_p99_us", name: "99 %", colour: "warn" } ] },
  { title: "Events on the way to the store", text: figure, lines: [{ column: "lag_events", name: "Events", colour: "accent" }] },
  { title: "Events of a flush", text: figure, lines: [{ column: "flush_events", name: "Events", colour: "accent" }] },
  { title: "Time of a flush, and of the disk", text: ms, lines: [
    { column: "flush_us", name: "Flush", colour: "accent" }, { column: "sync_us", name: "Disk", colour: "good" } ] },
  { title: "Memory", text: bytes, lines: [
    { column: "resident_bytes", name: "Process", colour: "accent" }, { column: "hot_bytes", name: "Counters", colour: "good" } ] },
  { title: "Disk", text: bytes, lines: [
    { column: "log_bytes", name: "Log", colour: "accent" }, { column: "store_bytes", name: "Store", colour: "good" } ] },
];

export default function Overview() {
  const { samples, problem } = useFigures();
  const [span, setSpan] = useState("600");
  const shown = useMemo(() => recent(samples, Number(span)), [samples, span]);
  const status = useLoaded((signal) => call<Status>("/v1/status", { signal }), "status", 2000);
  return (
    <>
      <PageTitle title="Overview" aside={
        <Field label="Charts show">
          <select className={fieldLook} value={span} onChange={(event) => setSpan(event.target.value)}>
            {Object.entries(spans).map(([seconds, name]) => <option key={seconds} value={seconds}>{name}</option>)}
          </select>
        </Field>
      }>What this server does, second by second. It remembers the last hour, also when nobody looks.</PageTitle>
      <div className="flex flex-col gap-4">
        {(problem ?? status.problem) && <Trouble problem={(problem ?? status.problem)!} />}
        <Figures samples={samples} status={status.data} />
        {status.data && (
          <div className="grid items-start gap-4 lg:grid-cols-3">
            <Health status={status.data} />
            <About status={status.data} />
            {status.data.pipeline && <States pipeline={status.data.pipeline} />}
          </div>
        )}
        <div className="grid gap-4 lg:grid-cols-2">
          {charts.map((chart) => (
            <Card key={chart.title} title={chart.title}>
              <div className="p-3">
                <Chart label={`${chart.title}, ${spans[span as keyof typeof spans]}`} samples={shown} lines={chart.lines} text={chart.text} />
              </div>
            </Card>
          ))}
        </div>
      </div>
    </>
  );
}
