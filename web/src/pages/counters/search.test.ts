import { expect, it } from "vitest";
import { askedOf, filterOf, patternOf } from "./search";

it("makes a pattern of what is typed", () => {
  expect([patternOf(""), patternOf("video"), patternOf("video*"), patternOf("a?")]).toEqual(["*", "*video*", "video*", "a?"]);
});

it("asks for items by their own name", () => {
  expect(["*video*", "video*/like", "*a/b/li*", "a\\*/like", "a\\\\*/like"].map(askedOf)).toEqual(["*video*", "video*", "*a/b*", "a\\**", "a\\\\*"]);
});

it.each([
  ["video*/like", ["video1/like", "video/x/like"], ["video1/dislike", "audio/like"]],
  ["*video1/li*", ["my video1/like"], ["video1/dislike", "video11/like"]],
  ["[a-c]?/like", ["b1/like"], ["d1/like", "b/like", "b12/like"]],
  ["[^a]/like", ["b/like"], ["a/like"]],
  ["a\\*/like", ["a*/like"], ["ab/like"]],
  ["(a.b)+/like", ["(a.b)+/like"], ["a.b/like", "(aXb)+/like"]],
  ["a[", ["anything"], []],
])("shows of %s what is meant", (pattern, those, others) => {
  const isMeant = filterOf(pattern);
  expect(those.filter(isMeant)).toEqual(those);
  expect(others.filter(isMeant)).toEqual([]);
});
