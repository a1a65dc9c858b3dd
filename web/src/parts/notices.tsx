// Messages that come up for a while: what was refused, what is done.

import { useEffect, useSyncExternalStore } from "react";
import { Icon } from "./icons";

export interface Notice {
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

export function notify(tone: Notice["tone"], text: string): void {
  const same = notices.filter((notice) => notice.text !== text);
  set([...same, { id: ++lastId, tone, text }].slice(-SHOWN_MAX));
}

function One({ notice }: { notice: Notice }) {
  const close = () => set(notices.filter((other) => other !== notice));
  useEffect(() => {
    const timer = setTimeout(close, SHOWN_MS);
    return () => clearTimeout(timer);
  });
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
    <ul role="status" aria-live="polite"
      className="pointer-events-none fixed right-4 bottom-20 left-4 z-50 flex flex-col gap-2 sm:left-auto sm:w-96 lg:bottom-4">
      {shown.map((notice) => <One key={notice.id} notice={notice} />)}
    </ul>
  );
}
