import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { joined, noSamples } from "../../lib/figures";
import { Behind } from "./behind";

const drawn = vi.hoisted(() => ({ data: [] as unknown[][] }));

vi.mock("uplot", () => ({
  default: class {
    constructor(_options: unknown, data: unknown[][]) {
      drawn.data = data;
    }
    setData(data: unknown[][]) {
      drawn.data = data;
    }
    setSize() {}
    destroy() {}
  },
}));

const place = document.createElement("div");
let root: Root;

beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  vi.stubGlobal("fetch", () => new Promise(() => {}));
  vi.stubGlobal("ResizeObserver", class {
    constructor(private readonly tell: () => void) {}
    observe() {
      this.tell();
    }
    disconnect() {}
  });
  vi.stubGlobal("matchMedia", () => ({ addEventListener() {}, removeEventListener() {} }));
  root = createRoot(place);
});
afterEach(async () => {
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
});

it("the chart beside the feed has no line through seconds in which nobody took samples", async () => {
  const samples = joined(noSamples(), { time: [1000, 2000, 9000, 10_000], writes: [1, 2, 3, 4] });
  await act(async () => root.render(<Behind samples={samples} status={undefined} item="a" />));
  await vi.waitFor(() => expect(drawn.data[1]).toEqual([1, 2, null, 3, 4]), { timeout: 20_000 });
}, 30_000);
