// Lists that come page by page.

import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { asPassing, isOld, type Page, type Problem } from "./api";
import { moment } from "./format";

type Load<T> = (cursor: string | null, signal: AbortSignal) => Promise<Page & { rows: T[] }>;

interface State<T> {
  rows: T[];
  isLoading: boolean;
  isWhole: boolean; // there is no more
  oldAsOf?: string; // some of it may be as old as that
  problem?: Problem;
}

export interface Paged<T> extends State<T> {
  more: () => void;
  reload: () => void;
  /** Somebody reads in the middle of it: nothing may move under the eyes. */
  hold: (isHeld: boolean) => void;
}

const PAGES_AT_ONCE = 20; // a page may be empty and yet not the last
const AGAIN_MS = 2000;

function older(one: string | undefined, other: string | undefined): string | undefined {
  return one === undefined || (other !== undefined && other < one) ? other : one;
}

/** For who reads the list; nothing where all of it is of now. */
export function ageText(oldAsOf: string | undefined): string {
  if (oldAsOf === undefined) return "";
  return `a part of the server does not answer: this may be old${Date.parse(oldAsOf) > 0 ? `, as of ${moment(oldAsOf)}` : ""}`;
}

/** One thing is asked at a time. What somebody asks for takes the place of what is asked now and then, which is quiet: it does not
 * show that it is under way. */
export class PagedRows<T> {
  private cursor: string | null = null;
  private stop: AbortController | undefined; // of what is under way
  private isQuiet = false; // what is under way
  private isHeld = false;
  private again: ReturnType<typeof setTimeout> | undefined;
  private listeners = new Set<() => void>();
  state: State<T> = { rows: [], isLoading: true, isWhole: false };

  constructor(private readonly load: Load<T>) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getState = (): State<T> => this.state;

  hold = (isHeld: boolean): void => {
    this.isHeld = isHeld;
  };

  reload = (): void => void this.run(null, []);

  more = (): void => {
    const isAsked = this.stop !== undefined && !this.isQuiet;
    if (!isAsked && this.cursor !== null) void this.run(this.cursor, this.state.rows);
  };

  /** The first page anew, unless somebody would notice. */
  refresh(): void {
    if (this.stop === undefined && !this.isHeld) void this.run(null, [], true);
  }

  close(): void {
    this.stop?.abort();
    this.stop = undefined;
    clearTimeout(this.again);
  }

  private set(state: Partial<State<T>>): void {
    this.state = { ...this.state, ...state };
    for (const listener of this.listeners) listener();
  }

  private async run(from: string | null, before: T[], isQuiet = false): Promise<void> {
    this.close();
    const stop = new AbortController();
    this.stop = stop;
    this.isQuiet = isQuiet;
    if (!isQuiet) this.set({ isLoading: true, problem: undefined });
    try {
      const { rows, cursor, oldAsOf } = await this.read(from, stop.signal);
      if (stop.signal.aborted) return;
      this.stop = undefined;
      if (isQuiet && this.isHeld) return; // somebody has begun to read meanwhile
      this.cursor = cursor;
      this.set({
        rows: [...before, ...rows], isWhole: cursor === null, oldAsOf: older(oldAsOf, from === null ? undefined : this.state.oldAsOf), isLoading: false, problem: undefined,
      });
    } catch (error) {
      if (stop.signal.aborted) return;
      this.stop = undefined;
      const problem = asPassing(error);
      this.set({ isLoading: false, problem });
      if (problem.mayTryAgain) this.again = setTimeout(() => void this.run(from, before, isQuiet), AGAIN_MS); // the page recovers by itself
    }
  }

  private async read(cursor: string | null, signal: AbortSignal): Promise<{ rows: T[]; cursor: string | null; oldAsOf?: string }> {
    const rows: T[] = [];
    let oldAsOf: string | undefined;
    for (let i = 0; i < PAGES_AT_ONCE; i++) {
      const page = await this.load(cursor, signal);
      rows.push(...page.rows);
      cursor = page.cursor;
      if (isOld(page)) oldAsOf = older(oldAsOf, page.as_of);
      if (cursor === null || rows.length > 0) break;
    }
    return { rows, cursor, oldAsOf };
  }
}

/** Loads the first page when the question changes, and the next ones when asked. With `everyMs` the first is loaded anew every so
 * often, unless it is held. Goes on by itself when the server was down. */
export function usePaged<T>(load: Load<T>, question: string, everyMs = 0): Paged<T> {
  const latest = useRef(load);
  latest.current = load;
  const list = useMemo(() => new PagedRows<T>((cursor, signal) => latest.current(cursor, signal)), [question]);
  const state = useSyncExternalStore(list.subscribe, list.getState);

  useEffect(() => {
    list.reload();
    return () => list.close();
  }, [list]);

  useEffect(() => {
    if (!everyMs) return;
    const timer = setInterval(() => !document.hidden && list.refresh(), everyMs);
    return () => clearInterval(timer);
  }, [list, everyMs]);

  return { ...state, more: list.more, reload: list.reload, hold: list.hold };
}
