import { act, createElement } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, expect, it, vi } from "vitest";
import { pointsOf, readPast, useMoment, useWatched, watchedWith, type Past } from "./history";

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

it("puts what was seen behind what the log has", () => {
  const seen = [{ time: 5, value: 1 }, { time: 15, value: 3 }];
  expect(pointsOf([{ time: 10, value: 2 }], seen)).toEqual([{ time: 10, value: 2 }, { time: 15, value: 3 }]);
  expect(pointsOf([], seen)).toEqual(seen);
});

async function readAll(answer: (url: URL) => Response): Promise<{ past: Past; asked: URL[] }> {
  const asked: URL[] = [];
  vi.stubGlobal("fetch", async (url: string) => {
    asked.push(new URL(url, "http://log"));
    return answer(asked.at(-1)!);
  });
  let past: Past = { points: [], note: "" };
  await readPast("young", "hour", new AbortController().signal, (next) => (past = next));
  return { past, asked };
}

const values = (complete: boolean, ...of: (string | null)[]) => () =>
  new Response(JSON.stringify({ values: of.map((value, i) => ({ time: new Date(i * 1000).toISOString(), value })), complete }));

it("asks once for all of the past, also of what is younger", async () => {
  const { past, asked } = await readAll(values(true, null, "7", "8"));
  expect(asked.map(({ pathname }) => pathname)).toEqual(["/v1/counters/young/values"]);
  const [since, until] = ["since", "until"].map((name) => Number(asked[0]!.searchParams.get(name)));
  expect(until! - since!).toBe(3_600_000);
  expect(past.points).toEqual([{ time: 0, value: null }, { time: 1000, value: 7 }, { time: 2000, value: 8 }]);
  expect(past.note).toBe("Where there is no line, it did not exist.");
  expect(past.problem).toBeUndefined();
});

it("says so where the log does not reach back so far", async () => {
  expect((await readAll(values(false, "7"))).past.note).toContain("does not reach back");
});

it("asks nothing for what is seen here", async () => {
  vi.stubGlobal("fetch", () => expect.fail("nothing is to be asked"));
  await readPast("young", "here", new AbortController().signal, () => expect.fail("nothing is to be told"));
});

it("tells what was refused, and does not ask again", async () => {
  const { past, asked } = await readAll(() => new Response('{"title":"No"}', { status: 422 }));
  expect([past.problem?.message, asked.length]).toEqual(["No", 1]);
});

it("of two moments that somebody names the second is told, however late the first answer is", async () => {
  const answers: ((value: string) => void)[] = [];
  const signals: AbortSignal[] = [];
  vi.stubGlobal("fetch", (_url: string, { signal }: { signal: AbortSignal }) => {
    signals.push(signal);
    return new Promise((done) => answers.push((value) => done(new Response(JSON.stringify({ values: [{ time: "", value: null }, { time: "", value }], complete: true })))));
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
