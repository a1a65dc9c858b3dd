// Live values: one stream of server-sent events for all that is shown of a server.
//
// EventSource cannot send a password, so the stream is read with fetch. Whoever shows a counter subscribes to its id;
// ids that come within a moment make one new stream, and those that go stay in it until the next. Ids that are too many
// for one request are covered by a pattern, of which the server tells only changes: the rest is read.
//
// A browser has six connections to a server for all its tabs, so a page that nobody sees has no stream. While there can
// be none, values are read at each try to open one: that is how it goes on where streams are blocked.
//
// Values are handed out once per frame: however fast they come, the page draws them sixty times a second at most.

import { api, idsInQueries, type Server } from "./api";

export interface Change {
  id: string;
  value: string | null;
}

export type StreamState = "idle" | "connecting" | "live" | "down";

type Listener = (change: Change) => void;

const GATHER_MS = 30;
const SETTLE_MS = 250; // while there is a stream: who scrolls shall not open one after the other
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;
const BEGIN_MS = 5000; // the server says something at once,
const SILENCE_MS = 20_000; // and then every 15 s
const START_MAX = 60; // characters: of at most 4 bytes, in a pattern of at most 256

interface Coverage {
  search: string;
  has: (id: string) => boolean;
  isPattern: boolean;
}

const nothing: Coverage = { search: "", has: () => false, isPattern: false };

/** What all of them begin with. */
function startOf(ids: string[]): string {
  let start = [...(ids[0] ?? "")].slice(0, START_MAX);
  for (const id of ids) {
    const letters = [...id];
    const end = start.findIndex((letter, i) => letter !== letters[i]);
    if (end >= 0) start = start.slice(0, end);
  }
  return start.join("");
}

export function coverageOf(ids: string[]): Coverage {
  const queries = idsInQueries(ids);
  if (queries.length <= 1) {
    const all = new Set(ids);
    return { search: `ids=${queries[0] ?? ""}`, has: (id) => all.has(id), isPattern: false };
  }
  const start = startOf(ids);
  const pattern = `${start.replace(/[\\*?[\]]/g, "\\$&")}*`;
  return { search: `match=${encodeURIComponent(pattern)}`, has: (id) => id.startsWith(start), isPattern: true };
}

/** Gives up when it takes longer. */
function within<T>(ms: number, stop: AbortController, coming: Promise<T>): Promise<T> {
  const limit = setTimeout(() => stop.abort(), ms);
  return coming.finally(() => clearTimeout(limit));
}

export class Changes {
  private listeners = new Map<string, Set<Listener>>();
  private last = new Map<string, Change>();
  private waiting = new Map<string, Change>(); // for the next frame
  private told = new Set<string>(); // since the stream began
  private covered = nothing; // by the stream
  private stateListeners = new Set<() => void>();
  private stop: AbortController | undefined; // of the stream
  private gathering: ReturnType<typeof setTimeout> | undefined;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private waitMs = FIRST_WAIT_MS;
  private isReading = false;
  private isWatching = false;
  state: StreamState = "idle";

  constructor(
    private readonly server: Pick<Server, "listen" | "values">,
    private readonly random = Math.random,
  ) {}

  /** What is known of it is told at once, what comes later whenever it comes. */
  subscribe(id: string, listener: Listener): () => void {
    this.watchVisibility();
    const set = this.listeners.get(id) ?? new Set();
    this.listeners.set(id, set.add(listener));
    const known = this.last.get(id);
    if (known) listener(known);
    if (!known || !this.covered.has(id)) this.gather();
    return () => {
      set.delete(listener);
      if (set.size > 0 || this.listeners.get(id) !== set) return;
      this.listeners.delete(id);
      this.forgetUnlessKept(id);
      if (this.listeners.size === 0) this.gather();
    };
  }

  onState(listener: () => void): () => void {
    this.stateListeners.add(listener);
    return () => this.stateListeners.delete(listener);
  }

  /** At once, and not when the wait is over: somebody has reason to believe that it works. */
  hurry(): void {
    if (this.state === "down") this.connect();
  }

  private setState(state: StreamState): void {
    if (this.state === state) return;
    this.state = state;
    for (const listener of this.stateListeners) listener();
  }

  private watchVisibility(): void {
    if (this.isWatching) return;
    this.isWatching = true;
    document.addEventListener("visibilitychange", () => this.connect());
  }

  /** A stream of ids goes on telling of those that nobody shows any more: who comes back to them finds them. One of a pattern
   * would fill the memory with what is never shown. */
  private isKept(id: string): boolean {
    return this.listeners.has(id) || (this.covered.has(id) && !this.covered.isPattern);
  }

  private forgetUnlessKept(id: string): void {
    if (this.isKept(id)) return;
    this.last.delete(id);
    this.told.delete(id);
  }

  // ---- what is covered ----

  private gather(): void {
    clearTimeout(this.gathering);
    this.gathering = setTimeout(() => this.settle(), this.stop ? SETTLE_MS : GATHER_MS);
  }

  private settle(): void {
    const ids = [...this.listeners.keys()];
    const isCovered = ids.length > 0 && ids.every((id) => this.covered.has(id));
    if (isCovered || (ids.length > 0 && this.state === "down")) void this.readUntold();
    else this.connect();
  }

  private async readUntold(): Promise<void> {
    if (this.isReading) return;
    this.isReading = true;
    const untold = () => [...this.listeners.keys()].filter((id) => !this.told.has(id));
    try {
      for (let ids = untold(); ids.length > 0; ids = untold()) {
        const told = this.told; // a stream that begins meanwhile has told nothing of it
        for (const counter of await this.server.values(ids)) if (!this.told.has(counter.id)) this.take(counter, told);
        for (const id of ids) told.add(id);
      }
    } catch {
      // The next stream, or the next try to open one, tells.
    } finally {
      this.isReading = false;
    }
  }

  // ---- the stream ----

  private connect(): void {
    clearTimeout(this.retry);
    clearTimeout(this.gathering);
    const before = this.stop;
    this.stop = undefined;
    if (this.listeners.size === 0 || document.hidden) {
      before?.abort();
      this.covered = nothing;
      this.last.clear();
      this.setState("idle");
      return;
    }
    const stop = new AbortController();
    this.stop = stop;
    if (this.state === "idle") this.setState("connecting");
    this.read(stop, before).catch(() => undefined).finally(() => {
      if (this.stop === stop) this.comeBack();
    });
  }

  /** Later, and not all at the same moment when the server was down for all of them. */
  private comeBack(): void {
    this.stop = undefined;
    this.covered = nothing;
    this.setState("down");
    this.told = new Set();
    void this.readUntold();
    this.retry = setTimeout(() => this.connect(), this.waitMs * (0.5 + this.random() / 2));
    this.waitMs = Math.min(this.waitMs * 2, LONGEST_WAIT_MS);
  }

  private async read(stop: AbortController, before: AbortController | undefined): Promise<void> {
    const covered = coverageOf([...this.listeners.keys()]);
    this.covered = covered;
    for (const id of [...this.last.keys()]) this.forgetUnlessKept(id);
    const reader = await this.begin(covered, stop).finally(() => before?.abort()); // nothing is missed in between
    let chunk = await within(BEGIN_MS, stop, reader.read());
    if (chunk.done) throw new Error("a stream that has ended before it began");
    this.told = new Set();
    this.setState("live");
    this.waitMs = FIRST_WAIT_MS;
    this.gather();
    const decoder = new TextDecoder();
    for (let rest = ""; !chunk.done; chunk = await within(SILENCE_MS, stop, reader.read()))
      rest = this.takeLines(rest + decoder.decode(chunk.value, { stream: true }));
  }

  private async begin(covered: Coverage, stop: AbortController): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    const response = await within(BEGIN_MS, stop, this.server.listen(covered.search, stop.signal));
    const isStream = response.headers.get("Content-Type")?.startsWith("text/event-stream"); // and no page of somebody in between
    if (!response.ok || !isStream || !response.body) throw new Error(`no stream: ${response.status}`);
    return response.body.getReader();
  }

  /** Gives back what is not a whole line yet. */
  private takeLines(text: string): string {
    const lines = text.split("\n");
    const rest = lines.pop()!;
    for (const line of lines) if (line.startsWith("data: ")) this.take(JSON.parse(line.slice(6)) as Change);
    return rest;
  }

  private take(change: Change, told = this.told): void {
    if (!this.isKept(change.id)) return;
    told.add(change.id);
    if (this.waiting.size === 0) requestAnimationFrame(() => this.handOut());
    this.waiting.set(change.id, change);
  }

  private handOut(): void {
    const changes = [...this.waiting.values()];
    this.waiting.clear();
    for (const change of changes) {
      if (this.isKept(change.id)) this.last.set(change.id, change);
      for (const listener of this.listeners.get(change.id) ?? []) listener(change);
    }
  }
}

/** Of the server that the page is from. */
export const changes = /* @__PURE__ */ new Changes(api);
