// What a counter was: as it was seen since the page was opened, or as the log has it.

import { useCallback, useEffect, useRef, useState } from "react";
import { asPassing, asProblem, call, LONG_MS, path, query, type Problem } from "./api";

export interface Point {
  time: number; // in milliseconds
  value: number | null; // a chart draws no more digits than a double has; null = there was no such counter
}

export const pastSpans = {
  here: { title: "since you opened this page", s: 0 },
  hour: { title: "the last hour", s: 3600 },
  day: { title: "the last day", s: 86_400 },
  week: { title: "the last 7 days", s: 7 * 86_400 },
} as const;

export type PastSpan = keyof typeof pastSpans;

const EVERY_MS = 1000;
const KEPT = 3600;
const LATE_MS = 2500;
const POINTS = 61;
const AGAIN_MS = 2000;

/** Behind those that are there; a browser that takes no samples for a while leaves a gap, and not a line. */
export function watchedWith(before: Point[], point: Point): Point[] {
  const last = before.at(-1);
  const isLate = last !== undefined && point.time - last.time > LATE_MS;
  return [...before, ...(isLate ? [{ time: last.time + 1, value: null }] : []), point].slice(-KEPT);
}

/** One sample a second while it is looked at, also when nothing moves; `isKnown`: `live` is what it is now. */
export function useWatched(id: string, live: string | null | undefined, isKnown: boolean): Point[] {
  const [points, setPoints] = useState<Point[]>([]);
  const latest = useRef({ live, isKnown });
  latest.current = { live, isKnown };
  useEffect(() => {
    setPoints([]);
    const take = () => {
      const now = latest.current;
      if (now.live === undefined) return;
      const point = { time: Date.now(), value: now.live === null || !now.isKnown ? null : Number(now.live) };
      setPoints((before) => watchedWith(before, point));
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

export interface Past {
  points: Point[];
  /** What is missing, and why. */
  note: string;
  problem?: Problem;
}

interface Values {
  values: { time: string; value: string | null }[];
  complete: boolean;
}

function valuesOf(id: string, since: number, until: number, points: number, signal: AbortSignal): Promise<Values> {
  return call<Values>(path("/v1/counters/", id, `/values${query({ since, until, points })}`), { signal, timeoutMs: LONG_MS });
}

/** null = there was no such counter then; undefined = the log does not reach back so far. */
async function valueAt(id: string, time: number, signal: AbortSignal): Promise<string | null | undefined> {
  return (await valuesOf(id, time - 1, time, 2, signal)).values.at(-1)?.value;
}

/** The values of a span, with one request; what fails for a while is asked again. */
export async function readPast(id: string, span: PastSpan, signal: AbortSignal, tell: (past: Past) => void): Promise<void> {
  const { s } = pastSpans[span];
  while (s > 0 && !signal.aborted) {
    const until = Date.now();
    try {
      const { values, complete } = await valuesOf(id, until - s * 1000, until, POINTS, signal);
      if (signal.aborted) return;
      const points = values.map(({ time, value }) => ({ time: Date.parse(time), value: value === null ? null : Number(value) }));
      const isYoung = points.some(({ value }) => value === null);
      tell({ points, note: !complete ? "The log does not reach back any further." : isYoung ? "Where there is no line, it did not exist." : "" });
      return;
    } catch (error) {
      if (signal.aborted) return;
      const problem = asPassing(error);
      tell({ points: [], note: "", problem });
      if (!problem.mayTryAgain) return;
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  }
}

export function usePast(id: string, span: PastSpan): Past {
  const [past, setPast] = useState<Past>({ points: [], note: "" });
  useEffect(() => {
    const stop = new AbortController();
    setPast({ points: [], note: "" });
    void readPast(id, span, stop.signal, setPast);
    return () => stop.abort();
  }, [id, span]);
  return past;
}

/** What is known about a moment: `value` as of valueAt. */
interface Asked {
  time: number;
  isAnswered: boolean;
  value?: string | null;
  problem?: Problem;
}

/** The value at a moment that somebody names. Who names another does not want to know about the one before. */
export function useMoment(id: string): [Asked | undefined, (time: number) => void] {
  const [asked, setAsked] = useState<Asked>();
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const look = useCallback((time: number) => {
    stop.current?.abort();
    const { signal } = (stop.current = new AbortController());
    const set = (answer: Partial<Asked>) => !signal.aborted && setAsked({ time, isAnswered: true, ...answer });
    setAsked({ time, isAnswered: false });
    valueAt(id, time, signal).then((value) => set({ value }), (error) => !signal.aborted && set({ problem: asProblem(error) }));
  }, [id]);
  return [asked, look];
}
