import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Problem } from "./api";
import { useLoaded, useSettled, useStored } from "./hooks";

let root: Root;
const place = document.createElement("div");

beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  vi.useFakeTimers();
  root = createRoot(place);
});
afterEach(async () => {
  await act(async () => root.unmount());
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const later = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));

function Loading({ load, question, everyMs, isLast }: { load: () => Promise<string>; question: string; everyMs?: number; isLast?: (data: string) => boolean }) {
  const { data, problem } = useLoaded(load, question, everyMs, isLast);
  return <p>{`${data ?? "nothing"}${problem ? `, ${problem.message}` : ""}`}</p>;
}

it("what was asked for before is not shown for another question", async () => {
  const answers: ((text: string) => void)[] = [];
  const load = () => new Promise<string>((done) => answers.push(done));
  await act(async () => root.render(<Loading load={load} question="a" />));
  await act(async () => root.render(<Loading load={load} question="b" />));
  await act(async () => answers[0]!("of a"));
  expect(place.textContent).toBe("nothing");
  await act(async () => answers[1]!("of b"));
  expect(place.textContent).toBe("of b");
});

it("what was there stays while the server is down, and is asked for again", async () => {
  const results = [() => "one", () => { throw new Problem(0, "", "down", "", ""); }, () => "two"];
  const load = async () => results.shift()!();
  await act(async () => root.render(<Loading load={load} question="a" everyMs={1000} />));
  expect(place.textContent).toBe("one");
  await later(1000);
  expect(place.textContent).toBe("one, down");
  await later(1000);
  expect(place.textContent).toBe("two");
});

it("what is refused is not asked for again", async () => {
  const load = vi.fn(() => Promise.reject(new Problem(404, "", "none", "", "")));
  await act(async () => root.render(<Loading load={load} question="a" />));
  await later(60_000);
  expect(place.textContent).toBe("nothing, none");
  expect(load).toHaveBeenCalledTimes(1);
});

it("what is the last answer is not asked for again", async () => {
  const results = ["running", "ended", "one too many"];
  const load = vi.fn(async () => results.shift()!);
  await act(async () => root.render(<Loading load={load} question="a" everyMs={1000} isLast={(data) => data === "ended"} />));
  await later(60_000);
  expect(place.textContent).toBe("ended");
  expect(load).toHaveBeenCalledTimes(2);
});

function Settled({ typed }: { typed: string }) {
  return <p>{useSettled(typed, 300)}</p>;
}

it("what is typed is looked for once it stands still", async () => {
  await act(async () => root.render(<Settled typed="" />));
  for (const typed of ["v", "vi", "vid"]) {
    await act(async () => root.render(<Settled typed={typed} />));
    await later(200);
    expect(place.textContent).toBe("");
  }
  await later(100);
  expect(place.textContent).toBe("vid");
});

function Stored() {
  const [value, set] = useStored("user", "ann");
  return <button onClick={() => set("ben")}>{value}</button>;
}

it("what is remembered is there again, and a browser that may not remember works as well", async () => {
  const click = () => act(async () => place.querySelector("button")!.click());
  await act(async () => root.render(<Stored />));
  await click();
  expect([place.textContent, localStorage.getItem("tally.user")]).toEqual(["ben", "ben"]);
  localStorage.clear();
  vi.spyOn(window, "localStorage", "get").mockImplementation(() => { throw new DOMException("blocked", "SecurityError"); });
  await act(async () => root.render(<Stored key="again" />));
  expect(place.textContent).toBe("ann");
  await click();
  expect(place.textContent).toBe("ben");
});
