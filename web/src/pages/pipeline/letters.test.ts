import { expect, it } from "vitest";
import type { Letter } from "./letter";
import { chosenOf } from "./letters";

const rowsOf = (...ids: string[]) => ids.map((event_id) => ({ event_id }) as Letter);

it("keeps what is chosen while the list has come in part only", () => {
  expect(chosenOf(["far down", "a"], { rows: rowsOf("a", "b"), isWhole: false })).toEqual(["far down", "a"]);
});

it("forgets what is gone, which a whole list can tell", () => {
  expect(chosenOf(["gone", "a"], { rows: rowsOf("a", "b"), isWhole: true })).toEqual(["a"]);
  expect(chosenOf(["gone"], { rows: [], isWhole: true })).toEqual([]);
});
