// The demo: posts to like, on the server that the page is from. It writes under a prefix of its own and nowhere else, so that it can be
// told from what an application counts, and be removed.

import { createContext, useContext } from "react";
import { api, call, newKey, Problem, query, type Page } from "./api";

export const PREFIX = "tally-demo:";

/** The id of an item or a user of the demo. */
export function demoId(name: string): string {
  return PREFIX + name;
}

/** Whom the demo offers to be. */
export const demoUsers = ["ann", "ben", "cho", "dana"];

/** Whether the operator allows it; undefined until the server has said so. */
export const DemoContext = createContext<boolean | undefined>(undefined);
export const useHasDemo = () => useContext(DemoContext);

const STEP = 100; // ids of a request: a few of them may be large items
const SCANS_MAX = 10; // somebody else may be at it with the demo meanwhile

async function deleteAll(ids: string[]): Promise<void> {
  const lines = ids.map((id) => `${JSON.stringify({ op: "delete", id })}\n`).join("");
  const answer = await api.text("/v1/batch", { lines, key: newKey() });
  const refused = answer.split("\n").find((line) => line && !/"status":(200|404)\b/.test(line));
  if (refused) throw new Problem(500, "", "Not everything could be deleted", refused, "");
}

/** Deletes what the server lists now; gives back how many there were. */
async function removeListed(tell: (count: number) => void): Promise<number> {
  let count = 0;
  let cursor: string | null = null;
  do {
    const page: Page & { counters: { id: string }[] } = await call(`/v1/counters${query({ match: `${PREFIX}*`, cursor, limit: STEP })}`);
    const ids = page.counters.map(({ id }) => id).filter((id) => id.startsWith(PREFIX));
    if (ids.length > 0) await deleteAll(ids);
    if (ids.length > 0) tell((count += ids.length));
    cursor = page.cursor;
  } while (cursor !== null);
  return count;
}

/** Deletes all counters and items under the prefix, step by step, until there are none; gives back how many there were. */
export async function removeDemo(tell: (count: number) => void): Promise<number> {
  let count = 0;
  for (let scans = 0; scans < SCANS_MAX; scans++) {
    const found = await removeListed((now) => tell(count + now));
    if (found === 0) return count;
    count += found;
  }
  throw new Problem(503, "", "Demo data keeps coming", "Somebody else is using the demo", "Try again later");
}
