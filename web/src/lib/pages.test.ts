import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Problem, type Age } from "./api";
import { ageText, PagedRows } from "./pages";

interface Asked {
  cursor: string | null;
  signal: AbortSignal;
  answer: (rows: string[], cursor: string | null, age?: Partial<Age>) => Promise<void>;
  fail: (problem: Problem) => Promise<void>;
}

async function settled(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0);
}

function start() {
  const asked: Asked[] = [];
  const list = new PagedRows<string>((cursor, signal) => new Promise((done, fail) => {
    asked.push({
      cursor, signal,
      answer: (rows, next, age) => (done({ rows, cursor: next, as_of: "", ...age }), settled()),
      fail: (problem) => (fail(problem), settled()),
    });
  }));
  list.reload();
  return { list, asked };
}

const down = () => new Problem(0, "", "Not now", "", "");

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("comes page by page, over empty ones, until it is whole", async () => {
  const { list, asked } = start();
  await asked[0]!.answer([], "1");
  await asked[1]!.answer(["a"], "2");
  expect(list.state).toMatchObject({ rows: ["a"], isWhole: false, isLoading: false });
  list.more();
  list.more(); // is asked already
  await asked[2]!.answer(["b"], null);
  expect(list.state).toMatchObject({ rows: ["a", "b"], isWhole: true });
  list.more();
  expect(asked.map(({ cursor }) => cursor)).toEqual([null, "1", "2"]);
});

it("more is asked for though the beginning is just being read anew", async () => {
  const { list, asked } = start();
  await asked[0]!.answer(["a"], "1");
  list.refresh();
  list.more();
  expect(asked[1]!.signal.aborted).toBe(true);
  await asked[1]!.answer(["new"], "1");
  await asked[2]!.answer(["b"], null);
  expect(list.state.rows).toEqual(["a", "b"]);
});

it("what was asked before a reload is not shown after it", async () => {
  const { list, asked } = start();
  await asked[0]!.answer(["a"], null);
  list.refresh();
  list.reload();
  await asked[2]!.answer([], null);
  await asked[1]!.answer(["a"], null); // as it was before
  expect(list.state).toMatchObject({ rows: [], isLoading: false });
});

it("nothing moves while somebody reads in it", async () => {
  const { list, asked } = start();
  await asked[0]!.answer(["a"], "1");
  list.refresh();
  list.hold(true);
  await asked[1]!.answer(["new"], "1");
  expect(list.state.rows).toEqual(["a"]);
  list.refresh();
  expect(asked).toHaveLength(2);
  list.hold(false);
  list.refresh();
  await asked[2]!.answer(["new"], null);
  expect(list.state.rows).toEqual(["new"]);
});

it("goes on where it was when the server is back", async () => {
  const { list, asked } = start();
  await asked[0]!.answer(["a"], "1");
  list.more();
  await asked[1]!.fail(down());
  expect(list.state).toMatchObject({ rows: ["a"], isLoading: false, problem: { status: 0 } });
  await vi.advanceTimersByTimeAsync(2000);
  await asked[2]!.answer(["b"], null);
  expect(list.state).toMatchObject({ rows: ["a", "b"], problem: undefined });
});

it("asks no more when it is closed", async () => {
  const { list, asked } = start();
  await asked[0]!.fail(down());
  list.close();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).toHaveLength(1);
});

it("is as old as the oldest of its pages, and of now again when all of them are", async () => {
  const { list, asked } = start();
  const [one, two] = ["2026-01-02T03:04:05.000Z", "2026-01-02T03:04:09.000Z"];
  await asked[0]!.answer(["a"], "1", { stale: true, as_of: two });
  expect(list.state.oldAsOf).toBe(two);
  list.more();
  await asked[1]!.answer([], "2", { shards_missing: 1, as_of: one });
  await asked[2]!.answer(["b"], "3", { as_of: "2026-01-01T00:00:00.000Z" });
  expect(list.state.oldAsOf).toBe(one);
  list.reload();
  await asked[3]!.answer(["a"], null, { as_of: two });
  expect(list.state.oldAsOf).toBeUndefined();
});

it("says that it may be old, and of when it is if that is known", () => {
  expect(ageText(undefined)).toBe("");
  expect(ageText("1970-01-01T00:00:00.000Z")).toBe("a part of the server does not answer: this may be old");
  expect(ageText("2026-01-02T03:04:05.000Z")).toMatch(/this may be old, as of .*2026/);
});
