import { expect, it } from "vitest";
import { joined, last, noSamples, recent, unknownNow } from "./figures";

it("puts newer samples behind those that are there", () => {
  const first = joined(noSamples(), { time: [1, 2], writes: [10, 20] });
  const next = joined(first, { time: [3], writes: [30], lag_events: [5] });
  expect(next.time).toEqual([1, 2, 3]);
  expect(next.writes).toEqual([10, 20, 30]);
  expect(next.lag_events).toEqual([null, null, 5]);
  expect(last(next, "writes")).toBe(30);
});

it("keeps an hour", () => {
  const times = Array.from({ length: 4000 }, (_, i) => i * 1000);
  const all = joined(noSamples(), { time: times });
  expect(all.time).toHaveLength(3600);
  expect(all.time[0]).toBe(400_000);
  expect(recent(all, 60).time[0]).toBe(3_940_000);
});

it("is the same when nothing is new", () => {
  const before = joined(noSamples(), { time: [1] });
  expect(joined(before, { time: [] })).toBe(before);
});

it("counts seconds and not samples: while the server was down there were none", () => {
  const all = joined(joined(noSamples(), { time: [1000, 2000] }), { time: [90_000, 91_000] });
  expect(recent(all, 60).time).toEqual([90_000, 91_000]);
});

it("begins anew when the server's clock was set back", () => {
  const all = joined(joined(noSamples(), { time: [5000, 6000] }), { time: [2000, 3000] });
  expect(all.time).toEqual([2000, 3000]);
});

it("does not go on with the newest sample while the server is away", () => {
  const before = joined(noSamples(), { time: [1000, 2000], writes: [10, 20] });
  const away = unknownNow(before);
  expect([last(before, "writes"), last(away, "writes")]).toEqual([20, null]);
  expect(unknownNow(away)).toBe(away);
  const back = joined(away, { time: [9000], writes: [0] });
  expect(back.writes).toEqual([10, 20, null, 0]);
});
