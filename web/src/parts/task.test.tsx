import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { TaskNote } from "./task";

const place = document.createElement("div");
const half = { id: 1, kind: "recount", state: "running", done: 40, all: 100, unit: "counters", started: "", ended: null, text: "", found: 0, lines: [] };
let root: Root;

beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  vi.useFakeTimers();
  root = createRoot(place);
});
afterEach(async () => {
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const later = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));

it("a task that the server has forgotten is gone, and is not asked for any more", async () => {
  const answer = vi.fn(() => Promise.resolve(new Response(JSON.stringify(half))));
  vi.stubGlobal("fetch", answer);
  const onDone = vi.fn();
  await act(async () => root.render(<TaskNote task={1} onDone={onDone} />));
  await later(100);
  expect(place.textContent).toContain("running");
  answer.mockImplementation(() => Promise.resolve(new Response('{"title":"There is no such task"}', { status: 404 })));
  await later(1000);
  expect(place.textContent).toContain("gone");
  expect(place.textContent).toContain("40 of 100 counters");
  expect(place.querySelector("progress")).toBeNull();
  expect(onDone).toHaveBeenCalledOnce();
  const asked = answer.mock.calls.length;
  await later(10_000);
  expect(answer).toHaveBeenCalledTimes(asked);
});
