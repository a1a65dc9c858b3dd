// Live values: one stream of server-sent events for all that the page shows.
//
// EventSource cannot send a password, so the stream is read with fetch. Whoever shows a counter subscribes to
// its id; ids that come and go within a moment make one new stream. Values are handed out once per frame: however
// fast they come, the page draws them sixty times a second at most.

import { authorization, type Change } from "./api";

export type StreamState = "idle" | "connecting" | "live" | "down";

type Listener = (change: Change) => void;

const GATHER_MS = 30;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;
const SILENCE_MS = 20_000; // the server says something every 15 s
const QUERY_MAX = 6000; // of the 8 KiB that a request's head may have

export class Changes {
  private listeners = new Map<string, Set<Listener>>();
  private last = new Map<string, Change>();
  private waiting = new Map<string, Change>();
  private stateListeners = new Set<() => void>();
  private stop: AbortController | null = null;
  private gathering: ReturnType<typeof setTimeout> | null = null;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private waitMs = FIRST_WAIT_MS;
  state: StreamState = "idle";

  subscribe(id: string, listener: Listener): () => void {
    let set = this.listeners.get(id);
    if (!set) {
      set = new Set();
      this.listeners.set(id, set);
      this.gather();
    }
    set.add(listener);
    const known = this.last.get(id);
    if (known) listener(known);
    return () => {
      set.delete(listener);
      if (set.size > 0 || this.listeners.get(id) !== set) return;
      this.listeners.delete(id);
      this.last.delete(id);
      this.gather();
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

  private gather(): void {
    if (this.gathering !== null) return;
    this.gathering = setTimeout(() => {
      this.gathering = null;
      this.connect();
    }, GATHER_MS);
  }

  private idsThatFit(): string {
    let text = "";
    for (const id of this.listeners.keys()) {
      const next = encodeURIComponent(id);
      if (text.length + next.length + 1 > QUERY_MAX) break;
      text += text ? `,${next}` : next;
    }
    return text;
  }

  private connect(): void {
    if (this.retry !== null) clearTimeout(this.retry);
    this.retry = null;
    const before = this.stop;
    this.stop = null;
    if (this.listeners.size === 0) {
      before?.abort();
      this.setState("idle");
      return;
    }
    const stop = new AbortController();
    this.stop = stop;
    if (this.state !== "live") this.setState("connecting");
    this.read(stop, before).catch(() => undefined).finally(() => {
      if (this.stop !== stop) return;
      this.setState("down");
      this.retry = setTimeout(() => this.connect(), this.waitMs);
      this.waitMs = Math.min(this.waitMs * 2, LONGEST_WAIT_MS);
    });
  }

  /** The stream before goes on until this one has begun: nothing is missed in between. */
  private async read(stop: AbortController, before: AbortController | null): Promise<void> {
    let response: Response;
    try {
      response = await fetch(`/v1/changes?ids=${this.idsThatFit()}`, {
        headers: { ...authorization(), Accept: "text/event-stream" },
        signal: stop.signal,
        cache: "no-store",
      });
    } finally {
      before?.abort();
    }
    if (!response.ok || !response.body) throw new Error(String(response.status));
    this.setState("live");
    this.waitMs = FIRST_WAIT_MS;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const silence = setTimeout(() => stop.abort(), SILENCE_MS);
      const { value, done } = await reader.read().finally(() => clearTimeout(silence));
      if (done) throw new Error("it has ended");
      text += value;
      const end = text.lastIndexOf("\n");
      for (const line of text.slice(0, end + 1).split("\n")) if (line.startsWith("data: ")) this.take(line.slice(6));
      text = text.slice(end + 1);
    }
  }

  private take(json: string): void {
    const change = JSON.parse(json) as Change;
    if (this.waiting.size === 0) requestAnimationFrame(() => this.handOut());
    this.waiting.set(change.id, change);
  }

  private handOut(): void {
    const changes = [...this.waiting.values()];
    this.waiting.clear();
    for (const change of changes) {
      const set = this.listeners.get(change.id);
      if (!set) continue;
      this.last.set(change.id, change);
      for (const listener of set) listener(change);
    }
  }
}

export const changes = new Changes();
