import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Described } from "../../lib/described";
import { ValueCard } from "./value";

const place = document.createElement("div");
const described: Described = {
  id: "a", kind: "counter", shards: 1, shards_asked: 1, policy: "local", floor: null, idle_s: 0, home: 1, expires: null, written: null, shards_changed: null,
  shards_reason: "", shard_values: null, as_of: "2026-01-02T03:04:05.678Z",
};
let root: Root;

beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  root = createRoot(place);
});
afterEach(async () => {
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
});

it.each([[{}, false], [{ stale: true }, true], [{ shards_missing: 3 }, true]])("a value that may be old is told so: %o", async (age, isTold) => {
  const about = { data: { ...described, ...age }, problem: undefined, reload: () => {} };
  await act(async () => root.render(<ValueCard live="7" about={about} />));
  expect(place.textContent).toContain("7");
  expect(place.textContent!.includes("may be old")).toBe(isTold);
});
