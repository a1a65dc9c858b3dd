import { expect, it } from "vitest";
import { whatComesNext, type Life } from "./pipeline";

const born = "2026-01-01T00:00:00.000Z";
const now = Date.parse(born) + 7000;
const life: Life = {
  event_id: "1", counter: "views", delta: "5", state: "PENDING", retry_count: 0, events: 1, created: born, processed: null, next: null, reason: null,
};

it("says of an event how it went and what comes next", () => {
  expect(whatComesNext(life, now)).toBe("7.0 s ago");
  expect(whatComesNext({ ...life, state: "SUCCESS", processed: "2026-01-01T00:00:00.250Z" }, now)).toBe("7.0 s ago, within 250 ms");
  expect(whatComesNext({ ...life, state: "RETRYING", retry_count: 3, next: "2026-01-01T00:00:15.000Z", reason: "full" }, now)).toBe("retry 3 of 5 in 8.0 s: full");
  expect(whatComesNext({ ...life, state: "FAILED", retry_count: 5, reason: "full" }, now)).toBe("7.0 s ago, after 5 retries: full");
});
