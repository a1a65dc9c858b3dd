import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { burst, endOf } from "./burst";

interface Batch {
  key: string;
  users: string[];
}

let batches: Batch[] = [];
let underWay = 0;
let most = 0;

/** Takes every line, a moment later; `failing` says what the n-th request gets instead. */
function serve(failing: (n: number) => number | undefined = () => undefined): void {
  vi.stubGlobal("fetch", async (_url: string, { body, headers, signal }: { body: string; headers: Record<string, string>; signal: AbortSignal }) => {
    const lines = body.trimEnd().split("\n");
    batches.push({ key: headers["Idempotency-Key"]!, users: lines.map((line) => (JSON.parse(line) as { user: string }).user) });
    const status = failing(batches.length);
    most = Math.max(most, ++underWay);
    await new Promise((done) => setTimeout(done, 50));
    underWay--;
    if (signal.aborted) throw signal.reason as Error;
    if (status === 0) throw new TypeError("reset");
    if (status !== undefined) return new Response(JSON.stringify({ title: "No" }), { status });
    return new Response(lines.map((_, i) => `{"line":${i + 1},"status":200}\n`).join(""));
  });
}

beforeEach(() => {
  vi.useFakeTimers();
  batches = [];
  underWay = most = 0;
});
afterEach(() => {
  burst.forget();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it("sends as many likes as are wanted, each by another user, few requests at a time", async () => {
  serve();
  burst.start("post", 42_001);
  await vi.advanceTimersByTimeAsync(5000);
  expect(burst.state).toMatchObject({ sent: 42_001, failed: 0, isOver: true });
  expect(new Set(batches.flatMap(({ users }) => users)).size).toBe(42_001);
  expect(batches.flatMap(({ users }) => users).every((user) => user.startsWith("tally-demo:crowd-"))).toBe(true);
  expect(new Set(batches.map(({ key }) => key)).size).toBe(batches.length);
  expect(most).toBe(4);
});

it("sends a batch without an answer again as it was, with the same key", async () => {
  serve((n) => (n === 1 ? 0 : n === 2 ? 503 : undefined));
  burst.start("post", 100);
  await vi.advanceTimersByTimeAsync(5000);
  expect(batches).toHaveLength(3);
  expect(new Set(batches.map(({ key, users }) => `${key} ${users.join()}`)).size).toBe(1);
  expect(burst.state).toMatchObject({ sent: 100, isOver: true });
  expect(burst.state!.problem).toBeUndefined();
});

it("ends when the server refuses", async () => {
  serve(() => 422);
  burst.start("post", 1_000_000);
  await vi.advanceTimersByTimeAsync(5000);
  expect(batches).toHaveLength(4);
  expect(burst.state).toMatchObject({ sent: 0, isOver: true, problem: { status: 422 } });
});

it("ends when somebody stops it", async () => {
  serve();
  burst.start("post", 1_000_000);
  await vi.advanceTimersByTimeAsync(75);
  burst.stop();
  await vi.advanceTimersByTimeAsync(5000);
  expect(batches).toHaveLength(8);
  expect(burst.state).toMatchObject({ sent: 20_000, isOver: true });
  expect(burst.state!.problem).toBeUndefined();
  expect(endOf(burst.state!)).toBe("Stopped.");
});

it("is over and forgotten when its end was waited for", async () => {
  serve();
  burst.start("post", 1_000_000);
  await vi.advanceTimersByTimeAsync(75);
  const ended = burst.end();
  expect(burst.state).toBeDefined();
  await vi.advanceTimersByTimeAsync(1000);
  await ended;
  expect([burst.state, underWay]).toEqual([undefined, 0]);
});

it("is done though some of it was refused", () => {
  const state = { item: "post", wanted: 10, sent: 8, failed: 2, perSecond: 1, isOver: true };
  expect(endOf(state)).toBe("Done.");
  expect(endOf({ ...state, isOver: false })).toBe("");
});
