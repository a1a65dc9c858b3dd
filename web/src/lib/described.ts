// What the server knows about a counter besides its value.

import { call, path, type Age } from "./api";
import { useLoaded, type Loaded } from "./hooks";

export interface Described extends Age {
  id: string;
  kind: "item" | "counter";
  shards: number;
  shards_asked: number;
  policy: string;
  floor: string | null;
  idle_s: number;
  home: number;
  expires: string | null;
  written: string | null;
  shards_changed: string | null;
  shards_reason: string;
  shard_values: string[] | null;
}

export function useDescribed(id: string, everyMs: number): Loaded<Described> {
  return useLoaded((signal) => call<Described>(path("/v1/counters/", id, "/describe"), { signal }), id, everyMs);
}
