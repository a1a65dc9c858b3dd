import { afterEach, expect, it, vi } from "vitest";
import { momentsOf, pointsOf, readPast, type Past } from "./history";

afterEach(() => vi.unstubAllGlobals());

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
