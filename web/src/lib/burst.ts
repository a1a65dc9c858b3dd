// A post goes viral: a bounded burst of likes by many users, so that one can watch what the server makes of it.
//
// There is one at a time, and it goes on while one walks from page to page.

import { useSyncExternalStore } from "react";
import { api, asProblem, newKey, type Problem } from "./api";
import { demoId } from "./demo";

export interface BurstState {
  item: string;
  wanted: number;
  sent: number;
  failed: number;
  perSecond: number;
  isOver: boolean;
  problem?: Problem;
}

/** How it went, once it is over. */
export function endOf({ isOver, problem, sent, failed, wanted }: BurstState): string {
  if (!isOver || problem) return "";
  return sent + failed < wanted ? "Stopped." : "Done.";
}

const LINES = 5000; // of a batch
const SENDERS = 4;
const TRIES = 5;
const WAIT_MS = 250;

function linesOf(item: string, crowd: string, from: number, count: number): string {
  const head = `{"op":"like","item":${JSON.stringify(item)},"user":"${crowd}-`;
  let lines = "";
  for (let i = from; i < from + count; i++) lines += `${head}${i}"}\n`;
  return lines;
}

/** How many of a batch were taken. Sent again with the same key if there was no answer: no like counts twice. */
async function sendBatch(lines: string, signal: AbortSignal): Promise<number> {
  const key = newKey();
  for (let tries = 1; ; tries++) {
    try {
      const answer = await api.text("/v1/batch", { lines, key, signal });
      return answer.match(/"status":200\b/g)?.length ?? 0;
    } catch (error) {
      if (signal.aborted || tries === TRIES || !asProblem(error).mayTryAgain) throw error;
      await new Promise((done) => setTimeout(done, WAIT_MS * tries));
    }
  }
}

/** Until all are sent, the signal is given, or the server refuses. */
async function runBurst(item: string, wanted: number, signal: AbortSignal, onState: (state: BurstState) => void): Promise<void> {
  const crowd = demoId(`crowd-${Math.random().toString(36).slice(2, 8)}`);
  const started = performance.now();
  const state: BurstState = { item, wanted, sent: 0, failed: 0, perSecond: 0, isOver: false };
  let next = 0;
  const tell = () => {
    state.perSecond = state.sent / Math.max((performance.now() - started) / 1000, 0.001);
    onState({ ...state });
  };
  const sender = async () => {
    while (next < wanted && !signal.aborted && !state.problem) {
      const from = next;
      const count = Math.min(LINES, wanted - from);
      next += count;
      try {
        const done = await sendBatch(linesOf(item, crowd, from, count), signal);
        state.sent += done;
        state.failed += count - done;
      } catch (error) {
        if (!signal.aborted) state.problem = asProblem(error);
      }
      tell();
    }
  };
  tell();
  await Promise.all(Array.from({ length: SENDERS }, sender));
  state.isOver = true;
  tell();
}

class Burst {
  private stopping: AbortController | undefined;
  private running: Promise<void> = Promise.resolve();
  private listeners = new Set<() => void>();
  state: BurstState | undefined;

  start(item: string, wanted: number): void {
    this.stop();
    const stopping = new AbortController();
    this.stopping = stopping;
    this.running = runBurst(item, wanted, stopping.signal, (state) => this.stopping === stopping && this.set(state));
  }

  stop(): void {
    this.stopping?.abort();
  }

  /** Stops it, and forgets it once nothing is under way any more. */
  async end(): Promise<void> {
    this.stop();
    await this.running;
    this.forget();
  }

  /** It is over, and nobody wants to read about it any more. */
  forget(): void {
    if (this.state?.isOver) this.set(undefined);
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getState = (): BurstState | undefined => this.state;

  private set(state: BurstState | undefined): void {
    this.state = state;
    for (const listener of this.listeners) listener();
  }
}

export const burst = new Burst();

export function useBurst(): BurstState | undefined {
  return useSyncExternalStore(burst.subscribe, burst.getState);
}
