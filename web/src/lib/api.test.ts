import { afterEach, describe, expect, it, vi } from "vitest";
import { asPassing, asProblem, call, hasPassword, idsInQueries, path, Problem, Server, setPassword } from "./api";

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

/** What the browser asks, of whom, and an answer for it. */
function answerWith(answer: (url: string, asked: RequestInit) => Promise<Response>) {
  const fetched = vi.fn(answer);
  vi.stubGlobal("fetch", fetched);
  return fetched;
}

const problemOf = (promise: Promise<unknown>) => promise.then(() => undefined, (error: unknown) => error as Problem);

describe("paths", () => {
  it.each(["a/b", "100%", "a b", "...", ".x", "%2e%2e", "日本", "?#"])("lead to %s and nowhere else", (id) => {
    const { pathname } = new URL(path("/v1/counters/", id, "/events"), "http://server");
    expect(pathname.split("/").map(decodeURIComponent)).toEqual(["", "v1", "counters", id, "events"]);
  });

  it.each([".", ".."])("never go through %s, which browsers take for a step", (id) => {
    expect(() => path("/v1/counters/", id, "/events")).toThrow(Problem);
    expect(() => path("/v1/counters/", id, "/events")).toThrow(id);
  });
});

describe("ids in queries", () => {
  it("are as many as a request may have, and none is left out", () => {
    const ids = Array.from({ length: 2500 }, (_, i) => `i${i}`);
    expect(idsInQueries(ids).map((query) => query.split(",").length)).toEqual([1000, 1000, 500]);
    const long = Array.from({ length: 50 }, (_, i) => `${i},${"ü".repeat(120)}`);
    const queries = idsInQueries(long);
    expect(Math.max(...queries.map((query) => query.length))).toBeLessThanOrEqual(6000);
    expect(queries.flatMap((query) => query.split(",").map(decodeURIComponent))).toEqual(long);
    expect(idsInQueries([])).toEqual([]);
  });
});

describe("values", () => {
  it("of which nothing is known now are not taken for those that are not there", async () => {
    const counters = [
      { id: "a", value: "1", stale: true, as_of: "2026-01-01T00:00:00.000Z" }, { id: "gone", value: null },
      { id: "b", value: null, stale: true, as_of: "1970-01-01T00:00:00.000Z" }, { id: "c", value: null, problem: "/problems/unavailable" },
      { id: "d", value: null, shards_missing: 2, as_of: "2026-01-01T00:00:00.000Z" },
    ];
    answerWith(() => Promise.resolve(new Response(JSON.stringify({ counters }))));
    expect((await new Server().values(["a", "gone", "b", "c", "d"])).map(({ id }) => id)).toEqual(["a", "gone"]);
  });
});

describe("answers", () => {
  it("that did not come come by themselves only to who asks again", async () => {
    answerWith(() => Promise.reject(new TypeError("refused")));
    const problem = await problemOf(call("/v1/status"));
    expect(asProblem(problem).text).toBe("The server cannot be reached");
    expect(asPassing(problem).text).toBe("The server cannot be reached. The page tries again by itself");
    expect(asPassing(new Problem(422, "", "No", "", "Sleep")).text).toBe("No. Sleep");
  });

  it("that do not come in time are none", async () => {
    answerWith((_url, { signal }) => new Promise((_done, fail) => signal!.addEventListener("abort", () => fail(signal!.reason as Error))));
    const problem = await problemOf(call("/v1/status", { timeoutMs: 20 }));
    expect(problem).toMatchObject({ status: 0, message: "The server does not answer", mayTryAgain: true });
  });

  it("that break off are none", async () => {
    const body = () => new ReadableStream({ start: (out) => out.error(new TypeError("reset")) });
    answerWith(() => Promise.resolve(new Response(body())));
    expect(await problemOf(call("/v1/status"))).toMatchObject({ status: 0, mayTryAgain: true });
  });

  it("of somebody in between are told apart", async () => {
    answerWith(() => Promise.resolve(new Response("<html>Please sign in to this network</html>")));
    expect(await problemOf(call("/v1/status"))).toMatchObject({ status: 502, mayTryAgain: false });
  });

  it("that are problems say so", async () => {
    answerWith(() => Promise.resolve(new Response('{"title":"No","detail":"It is late.","advice":"Sleep."}', { status: 422 })));
    expect(await problemOf(call("/v1/status"))).toMatchObject({ status: 422, text: "No. It is late. Sleep.", mayTryAgain: false, isUnknown: false });
  });
});

it("our own mistakes do not pass for an outage", () => {
  const said = vi.spyOn(console, "error").mockReturnValue();
  const problem = asProblem(new TypeError("x is undefined"));
  expect(problem).toMatchObject({ mayTryAgain: false, isUnknown: false, detail: "TypeError: x is undefined" });
  expect(problem.text).not.toContain("reached");
  expect(said).toHaveBeenCalledOnce();
});

it("the password goes to the page's own server only", async () => {
  sessionStorage.setItem("tally.password", "sesame");
  const fetched = answerWith(() => Promise.resolve(new Response("{}")));
  await call("/v1/status");
  await new Server("https://tally.example").call("/v1/status");
  sessionStorage.clear();
  expect(fetched.mock.calls.map(([url, asked]) => [url, (asked.headers as Record<string, string>).Authorization])).toEqual([
    ["/v1/status", "Bearer sesame"],
    ["https://tally.example/v1/status", undefined],
  ]);
});

it("the password is known as long as the page, where the browser may not remember it", async () => {
  vi.spyOn(window, "sessionStorage", "get").mockImplementation(() => { throw new DOMException("blocked", "SecurityError"); });
  const fetched = answerWith(() => Promise.resolve(new Response("{}")));
  expect([hasPassword(), setPassword("sesame"), hasPassword()]).toEqual([false, false, true]);
  await call("/v1/status");
  expect((fetched.mock.calls[0]![1].headers as Record<string, string>).Authorization).toBe("Bearer sesame");
});
