import { expect, it } from "vitest";
import { effectOf } from "./events";

const event = { time: "", origin: 1, sequence: 1, type: "react" };

it("says what an event did to the counter that one looks at", () => {
  expect(effectOf({ ...event, before: null, after: "like" }, "like")).toBe("+1");
  expect(effectOf({ ...event, before: "like", after: "dislike" }, "like")).toBe("−1");
  expect(effectOf({ ...event, before: "like", after: null }, "dislike")).toBe("0");
  expect(effectOf({ ...event, type: "add", delta: "-1234" }, null)).toBe("−1,234");
  expect(effectOf({ ...event, type: "set", value: "7" }, null)).toBe("= 7");
});
