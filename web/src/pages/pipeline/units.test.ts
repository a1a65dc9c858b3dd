import { expect, it } from "vitest";
import { whatComesNext, type Unit } from "./units";

const born = "2026-01-01T00:00:00.000Z";
const now = Date.parse(born) + 7000;
const unit: Unit = {
  event_id: "1", counter: "views", delta: "5", state: "PENDING", retry_count: 0, events: 1, created: born, processed: null, next: null, reason: null,
};

it("says of an event how it went and what comes next", () => {
  expect(whatComesNext(unit, now)).toBe("7.0 s ago");
  expect(whatComesNext({ ...unit, state: "SUCCESS", processed: "2026-01-01T00:00:00.250Z" }, now)).toBe("7.0 s ago, within 250 ms");
  expect(whatComesNext({ ...unit, state: "RETRYING", retry_count: 3, next: "2026-01-01T00:00:15.000Z", reason: "full" }, now)).toBe("retry 3 in 8.0 s: full");
  expect(whatComesNext({ ...unit, state: "FAILED", retry_count: 5, reason: "full" }, now)).toBe("7.0 s ago, after 5 retries: full");
});
