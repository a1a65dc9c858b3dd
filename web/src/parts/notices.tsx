// Messages that come up for a while: what was refused, what is done.

import { useEffect, useSyncExternalStore } from "react";
import type { Problem } from "../lib/api";
import { Icon } from "./icons";

interface Notice {
  id: number;
  tone: "bad" | "good";
  text: string;
}

const SHOWN_MS = 6000;
const SHOWN_MAX = 3;

let notices: Notice[] = [];
let lastId = 0;
const listeners = new Set<() => void>();

function set(next: Notice[]): void {
  notices = next;
  for (const listener of listeners) listener();
}

/** What is there already stays up for longer, and is not read out again. */
export function notify(tone: Notice["tone"], text: string): void {
  const isThere = notices.some((notice) => notice.text === text);
  set(isThere
    ? notices.map((notice) => (notice.text === text ? { ...notice, tone } : notice))
    : [...notices, { id: ++lastId, tone, text }].slice(-SHOWN_MAX));
}

/** Of something that is shown and could not be renewed. That the server is away is said for the whole page. */
export function useTrouble(problem: Problem | undefined): void {
  useEffect(() => {
    if (problem && problem.status !== 0) notify("bad", problem.text);
  }, [problem]);
}

function One({ notice }: { notice: Notice }) {
  const close = () => set(notices.filter((other) => other.id !== notice.id));
  useEffect(() => {
    const timer = setTimeout(close, SHOWN_MS);
    return () => clearTimeout(timer);
  }, [notice]);
  return (
    <li className="pointer-events-auto flex items-start gap-3 rounded-lg border border-line bg-panel py-3 pr-2 pl-4 text-sm shadow-lg">
      <span className={notice.tone === "bad" ? "text-bad" : "text-good"}>
        <Icon name={notice.tone === "bad" ? "warning" : "check"} />
      </span>
      <p className="min-w-0 flex-1 break-words">{notice.text}</p>
      <button type="button" className="rounded p-1 text-soft hover:bg-raised" onClick={close} aria-label="Close this message">
        <Icon name="close" className="size-4" />
      </button>
    </li>
  );
}

export function Notices() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => notices,
  );
  return (
    <div role="status">
      <ul className="flex flex-col gap-2">{shown.map((notice) => <One key={notice.id} notice={notice} />)}</ul>
    </div>
  );
}
