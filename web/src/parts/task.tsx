// Long work on the server, followed until it is done.

import { useEffect } from "react";
import { call } from "../lib/api";
import { exact } from "../lib/format";
import { useLoaded } from "../lib/hooks";
import { Badge, Trouble } from "./basics";

export interface Task {
  id: number;
  kind: string;
  state: string;
  done: number;
  all: number;
  unit: string;
  started: string;
  ended: string | null;
  text: string;
  found: number;
  lines: string[];
}

const EVERY_MS = 400;
const hasEnded = (task: Task) => task.ended !== null; // nothing can change any more

/** Tasks are in the server's memory only. */
function Lost({ task }: { task: Task }) {
  return (
    <div className="flex flex-wrap items-center gap-2 rounded-lg border border-line bg-panel px-4 py-3 text-sm">
      <Badge tone="bad">gone</Badge>
      <span className="font-medium">{task.kind}</span>
      <span role="status" className="min-w-0 text-soft">
        The server does not know this task any more: it was restarted. The last that was seen is {exact(String(task.done))} of {exact(String(task.all))} {task.unit}.
      </span>
    </div>
  );
}

export function TaskNote({ task, onDone }: { task: number; onDone?: () => void }) {
  const { data, problem } = useLoaded((signal) => call<Task>(`/v1/tasks/${task}`, { signal }), String(task), EVERY_MS, hasEnded);
  const isDone = data !== undefined && hasEnded(data);
  const isLost = !isDone && problem?.status === 404;
  useEffect(() => {
    if (isDone || isLost) onDone?.();
  }, [isDone, isLost, task, onDone]);
  if (problem && !data) return <Trouble problem={problem} />;
  if (!data) return null;
  if (isLost) return <Lost task={data} />;
  return (
    <div className="flex flex-col gap-2 rounded-lg border border-line bg-panel px-4 py-3 text-sm">
      <div className="flex flex-wrap items-center gap-2">
        <Badge tone={!isDone ? "accent" : data.state === "done" ? "good" : "bad"}>{data.state}</Badge>
        <span className="font-medium">{data.kind}</span>
        {!isDone && <span className="min-w-0 text-soft">{exact(String(data.done))} of {exact(String(data.all))} {data.unit}</span>}
        <span role="status" className="min-w-0 text-soft">{isDone && data.text}</span>
      </div>
      {!isDone && <progress className="bar" max={data.all || 1} value={data.done} aria-label="Progress" />}
      {data.lines.length > 0 && <ul className="font-mono text-xs break-words text-soft">{data.lines.map((line) => <li key={line}>{line}</li>)}</ul>}
    </div>
  );
}
