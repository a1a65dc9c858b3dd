import { expect, it } from "vitest";
import { momentsOf, pointsOf } from "./history";

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
