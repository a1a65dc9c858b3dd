import { expect, it } from "vitest";
import { hashOf, placeOf } from "./router";

it.each(["video1/like", "100%", "a b", "..%2f", "#?&", "日本", `<img src=x>"'`])("brings the id %s back", (id) => {
  expect(placeOf(hashOf("counters", id))).toEqual(["counters", id]);
});

it("takes what somebody has typed", () => {
  expect([placeOf(""), placeOf("#"), placeOf("#/"), placeOf("#/users/100%")]).toEqual([[], [], [], ["users", "100%"]]);
});
