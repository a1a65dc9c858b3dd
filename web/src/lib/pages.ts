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
}

const PAGES_AT_ONCE = 20; // a page may be empty and yet not the last

/** Loads the first page when the question changes, and the next ones when asked. */
export function usePaged<T>(
  load: (cursor: string | null, signal: AbortSignal) => Promise<Page & { rows: T[] }>,
  question: string,
): Paged<T> {
  const [state, setState] = useState<{ rows: T[]; cursor: string | null; isWhole: boolean; isLoading: boolean; problem?: Problem }>(
    { rows: [], cursor: null, isWhole: false, isLoading: true });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const stop = useRef<AbortController>(undefined);
  const busy = useRef(false);
  const now = useRef(state);
  now.current = state;

  const run = useCallback(async (from: string | null, before: T[]) => {
    const signal = stop.current!.signal;
    busy.current = true;
    setState((old) => ({ ...old, isLoading: true, problem: undefined }));
    try {
      const rows = [...before];
      let cursor = from;
      for (let i = 0; i < PAGES_AT_ONCE; i++) {
        const page = await latest.current(cursor, signal);
        rows.push(...page.rows);
        cursor = page.cursor;
        if (cursor === null || page.rows.length > 0) break;
      }
      if (!signal.aborted) setState({ rows, cursor, isWhole: cursor === null, isLoading: false });
    } catch (error) {
      if (!signal.aborted) setState((old) => ({ ...old, isLoading: false, problem: asProblem(error) }));
    } finally {
      if (!signal.aborted) busy.current = false;
    }
  }, []);

  useEffect(() => {
    const ours = new AbortController();
    stop.current = ours;
    busy.current = false;
    setState({ rows: [], cursor: null, isWhole: false, isLoading: true });
    void run(null, []);
    return () => ours.abort();
  }, [question, turn, run]);

  return {
    ...state,
    problem: state.problem,
    more: useCallback(() => {
      if (!busy.current && !now.current.isWhole && now.current.cursor !== null) void run(now.current.cursor, now.current.rows);
    }, [run]),
    reload: useCallback(() => setTurn((n) => n + 1), []),
  };
}
