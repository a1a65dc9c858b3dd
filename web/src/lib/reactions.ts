// What a user sees of an item while clicks are on their way: feedback at once, truth soon after.
//
// One write of an item is under way at a time, each with a key of its own; what is clicked meanwhile is remembered,
// the last click wins. A write without an answer is sent again with the same key. One that is refused is taken back.

import { api, asProblem, newKey, type Counts, type Problem, type Reacted } from "./api";
import { plus } from "./format";

export interface Shown {
  held: string | null;
  counts: Counts;
  isKnown: boolean; // the server has said how it is
  isBusy: boolean;
}

type React = (item: string, user: string, kind: string | null, key: string) => Promise<Reacted>;

const TRIES = 4;
const FIRST_WAIT_MS = 300;

/** Counts as they will be when a user who holds `from` holds `to`. */
export function moved(counts: Counts, from: string | null, to: string | null): Counts {
  if (from === to) return counts;
  const next = { ...counts };
  if (from !== null && (next[from] ?? "0") !== "0") next[from] = plus(next[from]!, -1);
  if (to !== null) next[to] = plus(next[to] ?? "0", 1);
  return next;
}

export class ItemReactions {
  private counts: Counts = {};
  private countsAt = "";
  private held: string | null = null; // as the server has it
  private wanted: string | null = null; // as the user does
  private isKnown = false;
  private isBusy = false;
  private late: Counts = {}; // live counts that came while a write was under way
  private listeners = new Set<() => void>();
  shown: Shown = { held: null, counts: {}, isKnown: false, isBusy: false };

  constructor(
    readonly item: string,
    readonly user: string,
    private readonly onProblem: (problem: Problem, wanted: string | null) => void,
    private readonly react: React = api.react,
    private readonly pause = (ms: number) => new Promise<void>((done) => setTimeout(done, ms)),
  ) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getShown = (): Shown => this.shown;

  /** What the user holds, and the counts, as they were asked for. */
  known(held: string | null, counts: Counts, at: string): void {
    if (!this.isBusy) this.held = this.wanted = held;
    this.isKnown = true;
    this.take(counts, at);
    this.show();
  }

  /** A count has moved. The one of a write of ours may come before its answer, which has it, too. */
  live(kind: string, value: string, at: string): void {
    if (this.isBusy) this.late[kind] = value;
    else this.take({ ...this.counts, [kind]: value }, at);
    this.show();
  }

  /** The user clicks on a kind: gives it, or takes it back. */
  click(kind: string): void {
    this.wanted = this.wanted === kind ? null : kind;
    if (!this.isBusy) void this.send();
    this.show();
  }

  private take(counts: Counts, at: string): void {
    if (at < this.countsAt) return;
    this.counts = counts;
    this.countsAt = at;
  }

  private async send(): Promise<void> {
    this.isBusy = true;
    while (this.wanted !== this.held) {
      const wanted = this.wanted;
      try {
        const reacted = await this.write(wanted);
        this.held = reacted.reaction;
        this.take(reacted.counts, reacted.as_of);
        this.late = {};
      } catch (error) {
        this.wanted = this.held;
        this.onProblem(asProblem(error), wanted);
      }
      this.show();
    }
    this.isBusy = false;
    this.counts = { ...this.counts, ...this.late };
    this.late = {};
    this.show();
  }

  private async write(wanted: string | null): Promise<Reacted> {
    const key = newKey();
    for (let tries = 1, waitMs = FIRST_WAIT_MS; ; tries++, waitMs *= 2) {
      try {
        return await this.react(this.item, this.user, wanted, key);
      } catch (error) {
        if (tries === TRIES || !asProblem(error).mayTryAgain) throw error;
      }
      await this.pause(waitMs);
    }
  }

  private show(): void {
    this.shown = {
      held: this.wanted,
      counts: moved(this.counts, this.held, this.wanted),
      isKnown: this.isKnown,
      isBusy: this.isBusy,
    };
    for (const listener of this.listeners) listener();
  }
}
