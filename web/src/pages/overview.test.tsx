import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import Overview from "./overview";

vi.mock("uplot", () => ({
  default: class {
    setData() {}
    setSize() {}
    destroy() {}
  },
}));

const place = document.createElement("div");
const pipeline = { pending: 1234, succeeded: 5, retrying: 0, dead_letters: 0 };
const status = {
  version: "1", started: "2026-01-02T03:04:05.678Z", workers: 1, demo: false, kinds: ["like"], counters: 1, items: 1, members: 1, ack: "log",
  forms: { hot: "redis", log: "kafka", store: "postgres" }, disk: null, resident_bytes: 1, parts: [],
};
const figures = { columns: { time: [1000, 2000], lag_events: [5000, 1234] }, as_of: "1970-01-01T00:00:02.000Z" };
let root: Root;

beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  vi.stubGlobal("ResizeObserver", class {
    observe() {}
    disconnect() {}
  });
  vi.stubGlobal("matchMedia", () => ({ addEventListener() {}, removeEventListener() {} }));
  root = createRoot(place);
});
afterEach(async () => {
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
});

const chartOf = (title: string) => [...place.querySelectorAll("section")].find((part) => part.querySelector("h2")?.textContent === title);

it.each([[true, "eventsabout 1.2K"], [false, "events1.2K"]])("what waits for the store is a count only where it was counted (estimated: %s)", async (isEstimated, text) => {
  const answer = (path: string) => (path.startsWith("/v1/figures") ? figures : { ...status, pipeline: { ...pipeline, lag_is_estimated: isEstimated } });
  vi.stubGlobal("fetch", (path: string) => Promise.resolve(new Response(JSON.stringify(answer(path)))));
  await act(async () => root.render(<Overview />));
  await vi.waitFor(() => expect(chartOf("On the way from log to store")?.textContent).toContain(text), { timeout: 20_000 });
}, 30_000);
