import { expect, it } from "vitest";
import { compareValues, countedText, rowsOf, sorted } from "./listed";

it("lists a counter for each reaction of an item", () => {
  const rows = rowsOf([{ id: "post", counts: { like: "2", dislike: "1" }, hot: true }, { id: "views", value: "7", hot: false }]);
  expect(rows.map((row) => [row.id, row.value, row.isHot])).toEqual([
    ["post/like", "2", true], ["post/dislike", "1", true], ["views", "7", false],
  ]);
});

it("shows no number for a counter whose row is damaged", () => {
  expect(rowsOf([{ id: "views", value: null, hot: false }]).map((row) => row.value)).toEqual(["?"]);
});

it("compares decimals of any size", () => {
  const values = ["100000000000000000001", "-5", "12", "-40", "100000000000000000000", "0"];
  expect(values.sort(compareValues)).toEqual(["-40", "-5", "0", "12", "100000000000000000000", "100000000000000000001"]);
});

it("sorts a hundred thousand", () => {
  const rows = Array.from({ length: 100_000 }, (_, i) => ({ id: `c${i}`, item: null, value: String((i * 7919) % 100_000), isHot: true }));
  const values = sorted(rows, "value", true).map((row) => Number(row.value));
  expect(values.every((value, i) => i === 0 || value <= values[i - 1]!)).toBe(true);
});

it("counts an item once, as the overview does, and says how many rows that is", () => {
  const rows = rowsOf([{ id: "post", counts: { like: "2", dislike: "1" }, hot: true }, { id: "views", value: "7", hot: false }]);
  expect(countedText(rows)).toBe("1 counter and 1 item, in 3 rows");
  expect(countedText(rows.slice(0, 2))).toBe("1 item, in 2 rows");
  expect(countedText(rows.slice(2))).toBe("1 counter");
});
