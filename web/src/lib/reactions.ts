// What a user sees of an item while clicks are on their way: feedback at once, truth soon after.
//
// One write of an item is under way at a time, each with a key of its own; what is clicked meanwhile is remembered, the
// last click wins. A write without an answer is sent again with the same key. One that is refused is taken back, and
// where nobody knows what became of it, the server is asked.
//
// Which of two values of a count is newer is found without a clock, since servers have several: a live value that came
// after a question was sent is newer than the answer, or is followed by one that is.

import { api, asProblem, newKey, type Counts, type Problem, type Reacted, type Server } from "./api";
import { plus } from "./format";

interface Shown {
  held: string | null;
  counts: Counts;
  isKnown: boolean; // the server has said how it is
  isBusy: boolean;
}

/** How far things were when something was asked. */
interface Mark {
  told: Record<string, number>;
  writes: number;
}

const TRIES = 4;
const FIRST_WAIT_MS = 300;
const LOAD_AGAIN_MS = 2000;

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
  private late: Counts = {}; // those that came while a write was under way, and may have it or not
  private told: Record<string, number> = {}; // how many live values there were, by kind
  private held: string | null = null; // as the server has it
  private wanted: string | null = null; // as the user does
  private sent: string | null = null; // what is under way
  private writes = 0;
  private isKnown = false;
  private isBusy = false;
  private isUnsure = false; // what the server has could not be found out
  private isLoading = false;
  private listeners = new Set<() => void>();
  shown: Shown = { held: null, counts: {}, isKnown: false, isBusy: false };

  constructor(
    readonly item: string,
    readonly user: string,
    private readonly onProblem: (problem: Problem, wanted: string | null) => void,
    private readonly server: Pick<Server, "react" | "mine"> = api,
    private readonly pause = (ms: number) => new Promise<void>((done) => setTimeout(done, ms)),
  ) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getShown = (): Shown => this.shown;

  /** What the user holds, and the counts, as somebody has asked for them. */
  known(held: string | null, counts: Counts): void {
    this.learn(held, counts, { told: {}, writes: this.writes });
  }

  /** Asks what the user holds. If that fails, it is asked again with the next live value: then the server is there again. */
  async load(): Promise<void> {
    if (this.isLoading) return;
    this.isLoading = true;
    const mark = this.mark();
    try {
      this.learn(await this.insist(() => this.askHeld()), {}, mark);
    } catch {
      this.isUnsure = true;
      await this.pause(LOAD_AGAIN_MS);
    }
    this.isLoading = false;
  }

  /** A count has moved. */
  live(kind: string, value: string): void {
    this.told[kind] = (this.told[kind] ?? 0) + 1;
    this.take(kind, value);
    this.show();
    if (this.isUnsure && !this.isBusy) void this.load();
  }

  /** The user clicks on a kind: gives it, or takes it back. */
  click(kind: string): void {
    this.wanted = this.wanted === kind ? null : kind;
    if (!this.isBusy) void this.send();
    this.show();
  }

  // ---- what is known ----

  private mark(): Mark {
    return { told: { ...this.told }, writes: this.writes };
  }

  private learn(held: string | null, counts: Counts, mark: Mark): void {
    if (!this.isBusy && this.writes === mark.writes) {
      this.held = this.wanted = held;
      this.isUnsure = false;
    }
    this.isKnown = true;
    for (const [kind, count] of Object.entries(this.untold(counts, mark))) this.take(kind, count);
    this.show();
  }

  /** Those that no live value has overtaken since they were asked for. */
  private untold(counts: Counts, mark: Mark): Counts {
    return Object.fromEntries(Object.entries(counts).filter(([kind]) => (this.told[kind] ?? 0) === (mark.told[kind] ?? 0)));
  }

  private take(kind: string, count: string): void {
    const isOurs = this.isBusy && (kind === this.held || kind === this.sent);
    if (isOurs) this.late = { ...this.late, [kind]: count };
    else this.counts = { ...this.counts, [kind]: count };
  }

  private async askHeld(): Promise<string | null> {
    return (await this.server.mine(this.user, [this.item])).reactions[0]?.reaction ?? null;
  }

  // ---- writing ----

  private async send(): Promise<void> {
    this.isBusy = true;
    while (this.wanted !== this.held) await this.sendWanted();
    this.isBusy = false;
    this.show();
  }

  private async sendWanted(): Promise<void> {
    const wanted = this.wanted;
    const mark = this.mark();
    this.sent = wanted;
    this.writes++;
    try {
      const reacted = await this.write(wanted);
      this.end(wanted, reacted.reaction, this.untold(reacted.counts, mark));
    } catch (error) {
      const problem = asProblem(error);
      const held = problem.isUnknown ? await this.findOut() : this.held;
      this.end(wanted, held, this.untold(moved(this.counts, this.held, held), mark));
      if (held !== wanted) this.onProblem(problem, wanted);
    }
    this.show();
  }

  /** What the server holds now rules, unless the user has clicked since. */
  private end(wanted: string | null, held: string | null, counts: Counts): void {
    this.counts = { ...this.counts, ...this.late, ...counts };
    this.late = {};
    this.held = this.sent = held;
    if (this.wanted === wanted) this.wanted = held;
  }

  private async findOut(): Promise<string | null> {
    try {
      const held = await this.askHeld();
      this.isUnsure = false;
      return held;
    } catch {
      this.isUnsure = true;
      return this.held;
    }
  }

  private write(wanted: string | null): Promise<Reacted> {
    const key = newKey();
    return this.insist(() => this.server.react(this.item, this.user, wanted, key));
  }

  /** Some times, as long as that may help. */
  private async insist<T>(ask: () => Promise<T>): Promise<T> {
    for (let tries = 1, waitMs = FIRST_WAIT_MS; ; tries++, waitMs *= 2) {
      try {
        return await ask();
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
