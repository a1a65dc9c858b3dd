import { expect, it } from "vitest";
import { broken, counterRange, isolated, wholeSteps } from "./chart-data";

it("a line is broken where samples are late", () => {
  const { times, lines } = broken([1000, 2000, 9000, 10_000], [[1, 2, 3, 4], [5, null, 7, 8]], 2500);
  expect(times).toEqual([1000, 2000, 2001, 9000, 10_000]);
  expect(lines).toEqual([[1, 2, null, 3, 4], [5, null, null, 7, 8]]);
  expect(broken([1000, 9000], [[1, 2]], Infinity)).toEqual({ times: [1000, 9000], lines: [[1, 2]] });
  expect(broken([], [[]], 2500)).toEqual({ times: [], lines: [[]] });
});

it("what stands alone between two gaps can be seen", () => {
  expect(isolated([1, null, 2, 3, null, 4])).toEqual([0, 5]);
  expect(isolated([null, null])).toEqual([]);
});

it("the axis of a counter is of whole numbers, and not below 0 for what is not", () => {
  expect(counterRange(null, null)).toEqual([0, 1]);
  expect(counterRange(0, 0)).toEqual([0, 1]);
  expect(counterRange(5, 5)).toEqual([4, 6]);
  expect(counterRange(100, 200)).toEqual([90, 210]);
  expect(counterRange(-5, 5)).toEqual([-6, 6]);
  expect(wholeSteps.every((step) => step >= 1 && Number.isFinite(step))).toBe(true);
});
