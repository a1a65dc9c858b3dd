// The way of an event, from the door to the store, with what happens at each station right now.

import { last, type Column, type Samples } from "../lib/figures";
import { bytes, duration, figure } from "../lib/format";
import { lagText, type Status } from "../lib/status";
import { Icon, type IconName } from "./icons";

export interface Station {
  name: string;
  form?: string | null; // what it is made of, once that is known
  icon: IconName;
  does: string;
  value: string;
  note: string;
  isMoving: boolean;
}

export const ms = (us: number) => duration(us / 1000);

/** The newest sample of a column as text. */
export function newest(samples: Samples, column: Column, text: (value: number) => string, none = "–"): string {
  const value = last(samples, column);
  return value === null ? none : text(value);
}

export function stationsOf(samples: Samples, status: Status | undefined): Station[] {
  const forms = status?.forms;
  const isAway = last(samples, "writes") === null; // then what it does is not known
  const at = (column: Column, text: (value: number) => string, none?: string) => newest(samples, column, text, isAway ? undefined : none);
  const writes = last(samples, "writes") ?? 0;
  const lag = last(samples, "lag_events") ?? 0;
  const isFile = (forms?.log ?? "file") === "file";
  return [
    { name: "Door", icon: "door", does: "takes requests: HTTP, Redis clients", value: `${at("writes", figure)} writes/s`,
      note: `${at("reads", figure)} reads/s, ${at("connections", figure)} connections`, isMoving: writes > 0 },
    { name: "Hot", form: forms?.hot, icon: "bolt", does: "checks, counts once, makes an event",
      value: at("write_p50_us", (us) => `${ms(us)} a write`, "idle"), note: at("hot_bytes", (size) => `${bytes(size)} of counters in it`, "counters and members"), isMoving: writes > 0 },
    { name: "Log", form: forms?.log, icon: "log", does: "keeps it: only now the answer leaves",
      value: isFile ? at("sync_us", (us) => `${ms(us)} to be safe`, "idle") : at("outbox", (count) => `${figure(count)} wait for it`, "idle"),
      note: at("log_bytes", (size) => `${bytes(size)} of events`, "every event, in order"), isMoving: writes > 0 },
    { name: "Aggregator", icon: "stack", does: "gathers events into batches", value: `${at("lag_events", (count) => lagText(count, status?.pipeline))} to go`,
      note: at("flush_events", (count) => `${figure(count)} events a flush`, "nothing to flush"), isMoving: lag > 0 },
    { name: "Store", form: forms?.store, icon: "database", does: "applies each exactly once",
      value: at("flush_us", (us) => `${ms(us)} a flush`, "idle"), note: at("store_bytes", (size) => `${bytes(size)} of rows`, "rows to query with SQL"), isMoving: lag > 0 },
  ];
}

/** In a row, joined by lines along which something moves; on a phone, and beside the feed, one below the other. */
export function Way({ stations, isColumn = false }: { stations: Station[]; isColumn?: boolean }) {
  const row = (classes: string) => (isColumn ? "" : classes);
  return (
    <ol aria-label="The way of an event" className={`grid gap-y-4 ${row("md:grid-cols-5 md:gap-x-5")}`}>
      {stations.map((station, i) => (
        <li key={station.name} className={`relative grid ${isColumn ? "grid-cols-[2.25rem_minmax(0,1fr)_8.75rem]" : "grid-cols-[2.25rem_minmax(0,1fr)_9.5rem]"} items-center gap-x-3
          ${row("md:block md:rounded-xl md:border md:border-line md:bg-panel md:p-4")}`}>
          {i > 0 && (
            <span aria-hidden="true" className={`flow absolute -top-4 left-[1.0625rem] h-4 w-0.5 ${station.isMoving ? "flow-moves" : ""}
              ${row("flow-side md:top-9 md:-left-5 md:h-0.5 md:w-5")}`} />
          )}
          <span className={`grid size-9 place-items-center rounded-full ${station.isMoving ? "bg-accent text-accent-ink" : "bg-accent-soft text-accent-text"}`}>
            <Icon name={station.icon} />
          </span>
          <div className={`min-w-0 ${row("md:mt-3")}`}>
            <p className="text-sm font-semibold">{station.name} {station.form && <span className="text-xs font-normal text-soft">{station.form}</span>}</p>
            <p className={`text-xs text-soft ${row("md:min-h-8")}`}>{station.does}</p>
          </div>
          <div className={`text-right tabular-nums ${row("md:mt-3 md:text-left")}`}>
            <p className="text-sm font-semibold">{station.value}</p>
            <p className={`text-xs text-soft ${isColumn ? "hidden" : "md:min-h-8 min-[88rem]:min-h-4"}`}>{station.note}</p>
          </div>
        </li>
      ))}
    </ol>
  );
}
