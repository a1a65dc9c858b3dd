import { act, createElement } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, expect, it, vi } from "vitest";
import { momentsOf, pointsOf, readPast, useMoment, useWatched, watchedWith, type Past } from "./history";

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

/** What a hook gives back now, and its end. */
async function use<T>(hook: () => T): Promise<{ now: () => T; end: () => Promise<void> }> {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  let now!: T;
  const root = createRoot(document.createElement("div"));
  const User = () => {
    now = hook();
    return null;
  };
  await act(async () => root.render(createElement(User)));
  return { now: () => now, end: () => act(async () => root.unmount()) };
}

it("spreads the moments of a span evenly, the newest last", () => {
  const moments = momentsOf("hour", 10_000_000);
  expect(moments.at(0)).toBe(10_000_000 - 3_600_000);
  expect(moments.at(-1)).toBe(10_000_000);
  expect(moments[1]! - moments[0]!).toBe(150_000);
  expect(momentsOf("here", 10_000_000)).toEqual([]);
});

it("puts what was seen behind what the log has", () => {
  const seen = [{ time: 5, value: 1 }, { time: 15, value: 3 }];
  expect(pointsOf([{ time: 10, value: 2 }], seen)).toEqual([{ time: 10, value: 2 }, { time: 15, value: 3 }]);
  expect(pointsOf([], seen)).toEqual(seen);
});

/** A log that has the value 7 since `born`, and nothing before `begins`. */
function stubLog(born: number, begins: number): number[] {
  const asked: number[] = [];
  vi.stubGlobal("fetch", async (url: string) => {
    const time = Number(new URL(url, "http://log").searchParams.get("time"));
    asked.push(time);
    const problem = (status: number, type: string) => new Response(JSON.stringify({ type: `/problems/${type}`, title: type }), { status });
    if (time < begins) return problem(422, "out-of-range");
    return time < born ? problem(404, "not-found") : new Response(JSON.stringify({ value: "7" }));
  });
  return asked;
}

async function readAll(moments: number[]): Promise<Past> {
  let past: Past = { points: [], note: "" };
  await readPast("young", moments, new AbortController().signal, (next) => (past = next));
  return past;
}

it("goes back in time beyond the moment that a counter came to be", async () => {
  const asked = stubLog(25, 0);
  const past = await readAll([10, 20, 30, 40]);
  expect(asked).toEqual([40, 30, 20, 10]);
  expect(past.points).toEqual([{ time: 10, value: null }, { time: 20, value: null }, { time: 30, value: 7 }, { time: 40, value: 7 }]);
  expect(past.note).toBe("Where there is no line, it did not exist.");
  expect(past.problem).toBeUndefined();
});

it("ends where the log begins, and says so", async () => {
  const asked = stubLog(0, 25);
  const past = await readAll([10, 20, 30, 40]);
  expect(asked).toEqual([40, 30, 20]);
  expect(past.points.map((point) => point.time)).toEqual([30, 40]);
  expect(past.note).toContain("does not reach back");
});

it("of two moments that somebody names the second is told, however late the first answer is", async () => {
  const answers: ((value: string) => void)[] = [];
  const signals: AbortSignal[] = [];
  vi.stubGlobal("fetch", (_url: string, { signal }: { signal: AbortSignal }) => {
    signals.push(signal);
    return new Promise((done) => answers.push((value) => done(new Response(JSON.stringify({ value })))));
  });
  const moment = await use(() => useMoment("views"));
  await act(async () => moment.now()[1](10));
  await act(async () => moment.now()[1](20));
  expect(moment.now()[0]).toEqual({ time: 20, isAnswered: false });
  await act(async () => answers[1]!("2"));
  await act(async () => answers[0]!("1"));
  expect(moment.now()[0]).toEqual({ time: 20, isAnswered: true, value: "2" });
  await act(async () => moment.now()[1](30));
  await moment.end();
  expect([signals[0]!.aborted, signals[2]!.aborted]).toEqual([true, true]);
});

it("watches a counter that is not there without drawing a 0", async () => {
  vi.useFakeTimers();
  let live: string | null = null;
  let isKnown = true;
  const watched = await use(() => useWatched("views", live, isKnown));
  await act(() => vi.advanceTimersByTimeAsync(1000));
  live = "0";
  for (let i = 0; i < 2; i++) await act(() => vi.advanceTimersByTimeAsync(1000));
  expect(watched.now().map((point) => point.value)).toEqual([null, null, 0]);
  isKnown = false; // the server is away
  for (let i = 0; i < 2; i++) await act(() => vi.advanceTimersByTimeAsync(1000));
  expect(watched.now().map((point) => point.value)).toEqual([null, null, 0, 0, null]);
  await watched.end();
});

it("draws no line over the time in which the browser took no samples", () => {
  const before = [{ time: 1000, value: 5 }, { time: 2000, value: 6 }];
  expect(watchedWith(before, { time: 3000, value: 7 }).map((point) => point.value)).toEqual([5, 6, 7]);
  expect(watchedWith(before, { time: 62_000, value: 7 }).map((point) => point.value)).toEqual([5, 6, null, 7]);
});
