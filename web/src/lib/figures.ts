// What the server has measured, a sample a second: the last hour of it, and then on as it comes.

import { useEffect, useState } from "react";
import { asPassing, call, query, type Problem } from "./api";

export const columns = [
  "time", "writes", "reads", "refused", "errors", "write_p50_us", "write_p90_us", "write_p99_us", "read_p50_us", "read_p90_us",
  "read_p99_us", "connections", "lag_events", "lag_ms", "flush_events", "flush_us", "pending", "retrying", "dead_letters",
  "sync_us", "outbox", "resident_bytes", "hot_bytes", "log_bytes", "store_bytes",
] as const;

export type Column = (typeof columns)[number];
export type Samples = Record<Column, (number | null)[]>;

interface Answer {
  columns: Partial<Samples>;
  as_of: string;
}

const KEPT = 3600;
const EVERY_MS = 1000;
/** One that is so late was not taken. */
export const SAMPLES_MS = 2500;
const CLOCKS_AGREE_MS = 2000;
const LATE_MS = 10_000; // what it was so long ago is not what it is now

export function noSamples(): Samples {
  return Object.fromEntries(columns.map((column) => [column, []])) as unknown as Samples;
}

/** The samples with newer ones behind them, the oldest dropped. A clock that was set back makes them begin anew. */
export function joined(before: Samples, newer: Partial<Samples>): Samples {
  const count = newer.time?.length ?? 0;
  if (count === 0) return before;
  const isSetBack = (before.time.at(-1) ?? 0) >= newer.time![0]!;
  const next = noSamples();
  for (const column of columns) {
    const added = newer[column] ?? new Array<null>(count).fill(null);
    next[column] = [...(isSetBack ? [] : before[column]), ...added].slice(-KEPT);
  }
  return next;
}

/** Nobody knows what is now: the newest sample says so until there is one again. */
export function unknownNow(samples: Samples): Samples {
  const time = samples.time.at(-1);
  return time === undefined || time === null || last(samples, "writes") === null ? samples : joined(samples, { time: [time + 1] });
}

export function last(samples: Samples, column: Column): number | null {
  return samples[column].at(-1) ?? null;
}

/** Those of the last so many seconds, as the server's clock has them. */
export function recent(samples: Samples, seconds: number): Samples {
  const times = samples.time as number[];
  const from = (times.at(-1) ?? 0) - seconds * 1000;
  const first = times.findIndex((time) => time > from);
  const next = noSamples();
  for (const column of columns) next[column] = samples[column].slice(Math.max(first, 0));
  return next;
}

const loadFigures = (since: number | null, signal: AbortSignal) => call<Answer>(`/v1/figures${query({ since })}`, { signal, timeoutMs: LATE_MS });

/** The last `seconds`, though the clock here may be wrong: how late it is there, the first answer says. */
async function loadRecent(seconds: number, signal: AbortSignal): Promise<Answer> {
  const since = Date.now() - seconds * 1000;
  const answer = await loadFigures(since, signal);
  const theirs = Date.parse(answer.as_of) - seconds * 1000;
  return theirs < since - CLOCKS_AGREE_MS ? loadFigures(theirs, signal) : answer;
}

/** The last hour, or the last `seconds`. */
export function useFigures(seconds?: number): { samples: Samples; problem: Problem | undefined } {
  const [state, setState] = useState<{ samples: Samples; problem?: Problem }>(() => ({ samples: noSamples() }));
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    let since: number | null = null; // of what is known already
    const round = async () => {
      try {
        const isFirst = since === null;
        const answer = isFirst && seconds !== undefined ? await loadRecent(seconds, stop.signal) : await loadFigures(since, stop.signal);
        since = answer.columns.time?.at(-1) ?? since;
        if (since !== null && Date.parse(answer.as_of) < since) since = null; // its clock was set back
        if (!stop.signal.aborted) setState(({ samples }) => ({ samples: joined(samples, answer.columns) }));
      } catch (error) {
        if (stop.signal.aborted) return;
        setState(({ samples }) => ({ samples: unknownNow(samples), problem: asPassing(error) }));
      }
      timer = setTimeout(round, EVERY_MS);
    };
    void round();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [seconds]);
  return { samples: state.samples, problem: state.problem };
}
