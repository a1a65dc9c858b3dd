// Lists that come page by page.

import { useCallback, useEffect, useRef, useState } from "react";
import { asProblem, type Page, type Problem } from "./api";

export interface Paged<T> {
  rows: T[];
  isLoading: boolean;
  isWhole: boolean; // there is no more
  problem: Problem | undefined;
  more: () => void;
  reload: () => void;
  /** Somebody reads in the middle of it: nothing may move under the eyes. */
  hold: (isHeld: boolean) => void;
}

interface State<T> {
  question: string;
  rows: T[];
  cursor: string | null;
  isWhole: boolean;
  isLoading: boolean;
  problem?: Problem;
}

const PAGES_AT_ONCE = 20; // a page may be empty and yet not the last
const AGAIN_MS = 2000;

function nothingOf<T>(question: string): State<T> {
  return { question, rows: [], cursor: null, isWhole: false, isLoading: true };
}

/** Loads the first page when the question changes, and the next ones when asked. With `everyMs` the first is loaded anew every so
 * often, unless it is held. Goes on by itself when the server was down. */
export function usePaged<T>(
  load: (cursor: string | null, signal: AbortSignal) => Promise<Page & { rows: T[] }>,
  question: string,
  everyMs = 0,
): Paged<T> {
  const [state, setState] = useState<State<T>>(() => nothingOf(question));
  const latest = useRef(load);
  latest.current = load;
  const stop = useRef<AbortController>(undefined);
  const isBusy = useRef(false);
  const isHeld = useRef(false);
  const now = useRef(state);
  now.current = state;

  const run = useCallback(async (from: string | null, before: T[], isQuiet = false) => {
    const signal = stop.current!.signal;
    isBusy.current = true;
    if (!isQuiet) setState((old) => ({ ...old, isLoading: true, problem: undefined }));
    try {
      const rows = [...before];
      let cursor = from;
      for (let i = 0; i < PAGES_AT_ONCE; i++) {
        const page = await latest.current(cursor, signal);
        rows.push(...page.rows);
        cursor = page.cursor;
        if (cursor === null || page.rows.length > 0) break;
      }
      const isLate = signal.aborted || (isQuiet && isHeld.current);
      if (!isLate) setState((old) => ({ question: old.question, rows, cursor, isWhole: cursor === null, isLoading: false }));
    } catch (error) {
      if (!signal.aborted) setState((old) => ({ ...old, isLoading: false, problem: asProblem(error) }));
    } finally {
      if (!signal.aborted) isBusy.current = false;
    }
  }, []);

  useEffect(() => {
    const ours = new AbortController();
    stop.current = ours;
    isBusy.current = isHeld.current = false;
    setState(nothingOf(question));
    void run(null, []);
    return () => ours.abort();
  }, [question, run]);

  useEffect(() => {
    if (!everyMs) return;
    const timer = setInterval(() => {
      if (!isBusy.current && !isHeld.current && !document.hidden) void run(null, [], true);
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs, run]);

  const problem = state.problem;
  useEffect(() => {
    if (everyMs || !problem?.mayTryAgain) return;
    const timer = setTimeout(() => void run(now.current.cursor, now.current.cursor === null ? [] : now.current.rows), AGAIN_MS);
    return () => clearTimeout(timer);
  }, [everyMs, problem, run]);

  const shown = state.question === question ? state : nothingOf<T>(question);
  return {
    rows: shown.rows,
    isLoading: shown.isLoading,
    isWhole: shown.isWhole,
    problem: shown.problem,
    more: useCallback(() => {
      if (!isBusy.current && !now.current.isWhole && now.current.cursor !== null) void run(now.current.cursor, now.current.rows);
    }, [run]),
    reload: useCallback(() => void run(null, []), [run]),
    hold: useCallback((held: boolean) => {
      isHeld.current = held;
    }, []),
  };
}
