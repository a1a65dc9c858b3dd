import { describe, expect, it } from "vitest";
import { ago, bytes, changeText, clock, compact, duration, exact, figure, plus, spoken } from "./format";

describe("compact", () => {
  it.each([
    ["0", "0"],
    ["999", "999"],
    ["1000", "1K"],
    ["1234", "1.2K"],
    ["9999", "9.9K"],
    ["12345", "12.3K"],
    ["999999", "999K"],
    ["1234567", "1.2M"],
    ["1000000000", "1B"],
    ["-1500", "−1.5K"],
    ["123456789012345678901234567890", "1.2×10²⁹"],
  ])("%s is %s", (value, text) => expect(compact(value)).toBe(text));
});

it("writes exact numbers in groups of three", () => {
  expect(exact("1234567")).toBe("1,234,567");
  expect(exact("-1234")).toBe("−1,234");
  expect(exact("12")).toBe("12");
});

it("writes what was measured in three digits", () => {
  expect([0.123, 1.5, 12.34, 123.4, 1234, 7].map(figure)).toEqual(["0.12", "1.50", "12.3", "123", "1.2K", "7"]);
});

it("writes sizes and times with their units", () => {
  expect([512, 2048, 5e9].map(bytes)).toEqual(["512 B", "2.0 KiB", "4.7 GiB"]);
  expect([0, 0.35, 3.2, 120, 3400, 90_000, 7.2e6].map(duration)).toEqual([
    "0 ms", "350 µs", "3.2 ms", "120 ms", "3.4 s", "2 min", "2 h",
  ]);
  expect([ago(1000, 1500), ago(0, 60_000), ago(9000, 1000)]).toEqual(["just now", "1 min ago", "in 8.0 s"]);
});

it("begins a day at 00, whatever the language", () => {
  const midnight = new Date(2026, 0, 1, 0, 5, 9).getTime();
  expect([clock(midnight), clock(midnight, false)]).toEqual(["00:05:09", "00:05"]);
});

it("says a count as it is seen, and exactly", () => {
  expect([undefined, "12", "1234"].map(spoken)).toEqual(["…", "12", "1.2K, exactly 1,234"]);
});

it("adds beyond what a double can hold", () => {
  expect(plus("9007199254740993", 1)).toBe("9007199254740994");
});

it("says what changed, of a counter or of the reactions of an item", () => {
  expect(["5", "-1234", '{"like":2,"dislike":-1}', "{}", "what?", "{broken"].map(changeText)).toEqual([
    "+5", "−1,234", "+2 like, −1 dislike", "", "what?", "{broken",
  ]);
});
