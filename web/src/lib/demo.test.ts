import { afterEach, expect, it, vi } from "vitest";
import { removeDemo } from "./demo";

afterEach(() => vi.unstubAllGlobals());

/** A server with these ids, which lists three at a time. */
function serve(ids: Set<string>, refused = new Set<string>()): string[][] {
  const batches: string[][] = [];
  vi.stubGlobal("fetch", async (url: string, { body }: { body?: string }) => {
    if (body !== undefined) {
      const asked = body.trimEnd().split("\n").map((line) => (JSON.parse(line) as { id: string }).id);
      batches.push(asked);
      return new Response(asked.map((id) => `{"id":${JSON.stringify(id)},"status":${refused.has(id) ? 507 : ids.delete(id) ? 200 : 404}}\n`).join(""));
    }
    const { searchParams } = new URL(url, "http://server");
    expect(searchParams.get("match")).toBe("tally-demo:*");
    const after = searchParams.get("cursor") ?? "";
    const found = [...ids].sort().filter((id) => id.startsWith("tally-demo:") && id > after);
    const page = found.slice(0, 3);
    return new Response(JSON.stringify({ counters: page.map((id) => ({ id })), cursor: found.length > 3 ? page[2] : null, as_of: "" }));
  });
  return batches;
}

it("removes all that is under the prefix and nothing else, in steps, and tells how far it is", async () => {
  const ids = new Set(["views", "tally-demo", ...Array.from({ length: 7 }, (_, i) => `tally-demo:${i}`)]);
  const batches = serve(ids);
  const told: number[] = [];
  expect(await removeDemo((count) => told.push(count))).toBe(7);
  expect([...ids]).toEqual(["views", "tally-demo"]);
  expect(batches.map((batch) => batch.length)).toEqual([3, 3, 1]);
  expect(told).toEqual([3, 6, 7]);
});

it("says so when the server refuses", async () => {
  serve(new Set(["tally-demo:a", "tally-demo:b"]), new Set(["tally-demo:b"]));
  await expect(removeDemo(() => undefined)).rejects.toThrow("Not everything could be deleted");
});

it("ends though somebody else writes more and more", async () => {
  const ids = new Set(["tally-demo:a"]);
  serve(ids, new Set());
  await expect(removeDemo(() => ids.add("tally-demo:more"))).rejects.toThrow("keeps coming");
});
