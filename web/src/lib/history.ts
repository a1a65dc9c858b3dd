// What a counter was: as it was seen since the page was opened, or as the log has it.

import { useEffect, useRef, useState } from "react";
import { asProblem, call, path, query, type Problem } from "./api";

export interface Point {
  time: number; // in milliseconds
  value: number; // a chart draws no more digits than a double has
}

export const spans = {
  here: { title: "since you opened this page", s: 0 },
  hour: { title: "the last hour", s: 3600 },
  day: { title: "the last day", s: 86_400 },
  week: { title: "the last 7 days", s: 7 * 86_400 },
} as const;

export type Span = keyof typeof spans;

const EVERY_MS = 1000;
const KEPT = 3600;
const POINTS = 25; // the server reads the log for each

/** One sample a second while it is looked at, also when nothing moves. */
export function useWatched(id: string, live: string | null | undefined): Point[] {
  const [points, setPoints] = useState<Point[]>([]);
  const latest = useRef(live);
  latest.current = live;
  useEffect(() => {
    setPoints([]);
    const take = () => {
      if (latest.current === undefined) return;
      const point = { time: Date.now(), value: Number(latest.current ?? 0) };
      setPoints((before) => [...before, point].slice(-KEPT));
    };
    const timer = setInterval(take, EVERY_MS);
    return () => clearInterval(timer);
  }, [id]);
  return points;
}

/** The past, then what was seen since. */
export function pointsOf(past: Point[], watched: Point[]): Point[] {
  const end = past.at(-1)?.time ?? 0;
  return [...past, ...watched.filter((point) => point.time > end)];
}

/** The moments of a span, evenly spread, the newest last. */
export function momentsOf(span: Span, now: number): number[] {
  const { s } = spans[span];
  return s === 0 ? [] : Array.from({ length: POINTS }, (_, i) => now - (s * 1000 * (POINTS - 1 - i)) / (POINTS - 1));
}

/** Asked for one after the other, and drawn as they come. */
export function usePast(id: string, span: Span): { points: Point[]; problem: Problem | undefined } {
  const [state, setState] = useState<{ points: Point[]; problem?: Problem }>({ points: [] });
  useEffect(() => {
    const stop = new AbortController();
    setState({ points: [] });
    const load = async () => {
      try {
        for (const time of momentsOf(span, Date.now()).map(Math.round)) {
          const { value } = await call<{ value: string }>(path("/v1/counters/", id, `/at${query({ time })}`), { signal: stop.signal });
          setState(({ points }) => ({ points: [...points, { time, value: Number(value) }] }));
        }
      } catch (error) {
        if (!stop.signal.aborted) setState(({ points }) => ({ points, problem: asProblem(error) }));
      }
    };
    void load();
    return () => stop.abort();
  }, [id, span]);
  return { points: state.points, problem: state.problem };
}
