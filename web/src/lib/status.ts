// What the server says about itself.

import { call } from "./api";
import { figure } from "./format";
import { useLoaded, type Loaded } from "./hooks";

interface Part {
  name: string;
  ok: boolean;
  needed: boolean;
  reason: string;
}

export interface Status {
  version: string;
  started: string;
  workers: number;
  demo: boolean;
  kinds: string[];
  counters: number;
  items: number;
  members: number;
  ack: string;
  forms: { hot: string; log: string; store: string | null };
  disk: { free_bytes: number; size_bytes: number } | null;
  resident_bytes: number;
  parts: Part[];
  pipeline: { lag_is_estimated?: boolean; pending: number; succeeded: number; retrying: number; dead_letters: number } | null;
}

/** How many events wait, as exactly as the server knows: it counts them only where nobody else writes to the log. */
export function lagText(count: number, pipeline: Status["pipeline"] | undefined): string {
  return count === 0 || pipeline?.lag_is_estimated === false ? figure(count) : `about ${figure(count)}`;
}

/** `again`: something else when it has to be asked anew. */
export function useStatus(everyMs = 0, again = ""): Loaded<Status> {
  return useLoaded((signal) => call<Status>("/v1/status", { signal }), `status ${again}`, everyMs);
}
