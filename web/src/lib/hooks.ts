// What components share: values that live outside of them.

import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { asPassing, type Problem } from "./api";
import { changes, type StreamState } from "./changes";
import { recall, remember } from "./kept";

/** The value of a counter, live; null = it is not there, undefined = not known yet. */
export function useLive(id: string): string | null | undefined {
  const [value, setValue] = useState<string | null | undefined>(undefined);
  useEffect(() => {
    setValue(undefined);
    return changes.subscribe(id, (change) => setValue(change.value));
  }, [id]);
  return value;
}

export function useStreamState(): StreamState {
  return useSyncExternalStore(
    (listener) => changes.onState(listener),
    () => changes.state,
  );
}

/** Whether there is room for it, as CSS would say: what is not shown need not be asked for. */
export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (listener) => {
      const media = matchMedia(query);
      media.addEventListener("change", listener);
      return () => media.removeEventListener("change", listener);
    },
    () => matchMedia(query).matches,
  );
}

/** Something small that this browser remembers. */
export function useStored(name: string, first: string): [string, (value: string) => void] {
  const [value, setValue] = useState(() => recall(name) ?? first);
  const set = useCallback(
    (next: string) => {
      remember(name, next);
      setValue(next);
    },
    [name],
  );
  return [value, set];
}

export const TYPING_MS = 300; // a search goes through all that there is: it waits until somebody has typed

/** What it was last, once it stands still. */
export function useSettled(value: string, ms: number): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

export interface Loaded<T> {
  data: T | undefined;
  problem: Problem | undefined; // of the last try; data may be of an earlier one
  reload: () => void;
}

const AGAIN_MS = 2000;

/** Asks, and asks again every so often until an answer is the last, or when the server was down; what is not there is not asked for again. What comes late for another question is dropped. */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, question: string, everyMs = 0, isLast?: (data: T) => boolean): Loaded<T> {
  const [state, setState] = useState<{ question: string; data?: T; problem?: Problem }>({ question });
  const [turn, setTurn] = useState(0);
  const latest = useRef({ load, isLast });
  latest.current = { load, isLast };
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const round = async () => {
      let isDown = false;
      let isOver = false;
      try {
        const data = await latest.current.load(stop.signal);
        isOver = latest.current.isLast?.(data) ?? false;
        if (!stop.signal.aborted) setState({ question, data });
      } catch (error) {
        if (stop.signal.aborted) return;
        const problem = asPassing(error);
        isDown = problem.mayTryAgain;
        isOver = problem.status === 404;
        setState((before) => ({ question, data: before.question === question ? before.data : undefined, problem }));
      }
      const waitMs = isOver ? 0 : everyMs || (isDown ? AGAIN_MS : 0); // the page recovers by itself
      if (waitMs && !stop.signal.aborted) timer = setTimeout(round, waitMs);
    };
    void round();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [question, everyMs, turn]);
  const isCurrent = state.question === question;
  return {
    data: isCurrent ? state.data : undefined,
    problem: isCurrent ? state.problem : undefined,
    reload: useCallback(() => setTurn((n) => n + 1), []),
  };
}
