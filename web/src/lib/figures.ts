// What the server has measured, a sample a second: the last hour of it, and then on as it comes.

import { useEffect, useState } from "react";
import { asProblem, call, query, type Problem } from "./api";

export const columns = [
  "time", "writes", "reads", "refused", "errors", "write_p50_us", "write_p90_us", "write_p99_us", "read_p50_us", "read_p90_us",
  "read_p99_us", "connections", "lag_events", "lag_ms", "flushes", "flush_events", "flush_us", "pending", "retrying", "dead_letters",
  "sync_us", "outbox", "resident_bytes", "hot_bytes", "log_bytes", "store_bytes", "disk_free_bytes", "disk_bytes",
] as const;

export type Column = (typeof columns)[number];
export type Samples = Record<Column, (number | null)[]>;

interface Answer {
  every_ms: number;
  columns: Partial<Samples>;
}

const KEPT = 3600;
const EVERY_MS = 1000;

export function noSamples(): Samples {
  return Object.fromEntries(columns.map((column) => [column, []])) as unknown as Samples;
}

/** The samples with newer ones behind them, the oldest dropped. After a restart of the server its clock may stand before ours. */
export function joined(before: Samples, newer: Partial<Samples>): Samples {
  const count = newer.time?.length ?? 0;
  if (count === 0) return before;
  const next = noSamples();
  for (const column of columns) {
    const added = newer[column] ?? new Array<null>(count).fill(null);
    next[column] = [...before[column], ...added].slice(-KEPT);
  }
  return next;
}

export function last(samples: Samples, column: Column): number | null {
  return samples[column].at(-1) ?? null;
}

/** Those of the last so many seconds. */
export function recent(samples: Samples, seconds: number): Samples {
  const next = noSamples();
  for (const column of columns) next[column] = samples[column].slice(-seconds);
  return next;
}

/** The last hour, or the last `seconds`, as far as the clocks of browser and server agree. */
export function useFigures(seconds?: number): { samples: Samples; problem: Problem | undefined } {
  const [state, setState] = useState<{ samples: Samples; problem?: Problem }>(() => ({ samples: noSamples() }));
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    let since: number | null = seconds === undefined ? null : Date.now() - seconds * 1000;
    const round = async () => {
      try {
        const answer: Answer = await call<Answer>(`/v1/figures${query({ since })}`, { signal: stop.signal });
        since = answer.columns.time?.at(-1) ?? since;
        if (!stop.signal.aborted) setState(({ samples }) => ({ samples: joined(samples, answer.columns) }));
      } catch (error) {
        if (stop.signal.aborted) return;
        setState(({ samples }) => ({ samples, problem: asProblem(error) }));
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
