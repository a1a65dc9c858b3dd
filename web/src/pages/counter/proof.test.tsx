import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ProofCard } from "./proof";

const place = document.createElement("div");
const proved = { value: "41", recount: "41", base: "0", discarded: "0", events: 3, agrees: true, as_of: "2026-01-02T03:04:05.678Z" };
let root: Root;

beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(JSON.stringify(proved))));
  vi.useFakeTimers();
  root = createRoot(place);
});
afterEach(async () => {
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const show = (live: string | null | undefined) => act(async () => root.render(<ProofCard id="a" live={live} />));
const later = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));

async function prove(live: string) {
  await show(live);
  await act(async () => place.querySelector("button")!.click());
  await later(0);
  expect(place.textContent).toContain("The number is proved, as of");
}

it("a proof ends when the counter comes back to what was shown before it", async () => {
  await prove("7"); // a moment older than the proof
  await show("41");
  expect(place.textContent).toContain("The number is proved, as of");
  await show("7");
  expect(place.textContent).toContain("The counter has changed since");
  await show("41"); // which says nothing of what was in between
  expect(place.textContent).toContain("The counter has changed since");
});

it("a proof ends when the counter goes on from what was shown before it", async () => {
  await prove("7");
  await show("42");
  expect(place.textContent).toContain("The counter has changed since");
});

it("what is shown may be a moment older than a proof, and no longer", async () => {
  await prove("7");
  await later(4_000);
  expect(place.textContent).toContain("The number is proved, as of");
  await later(2_000);
  expect(place.textContent).toContain("The counter has changed since");
});

it("a proof stays while the counter is what it was", async () => {
  await prove("41");
  await later(60_000);
  expect(place.textContent).toContain("The number is proved, as of");
  await show(undefined); // nothing is known for a while
  await show("41");
  expect(place.textContent).toContain("The number is proved, as of");
});
