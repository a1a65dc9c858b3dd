// Events of a counter, as people read them.

import { changeText, exact } from "./format";

export interface Event {
  time: string;
  origin: number;
  sequence: number;
  type: string;
  user?: string;
  before?: string | null;
  after?: string | null;
  delta?: string;
  value?: string;
  key?: string;
  region?: string;
}

/** What a reaction meant for the counter of its kind; of others what was added. */
export function effectOf(event: Event, kind: string | null): string {
  if (event.type === "react") return event.after === kind ? "+1" : event.before === kind ? "−1" : "0";
  if (event.delta !== undefined) return changeText(event.delta);
  return event.value !== undefined ? `= ${exact(event.value)}` : "";
}

export function whatHappened(event: Event): string {
  if (event.type !== "react") return event.type;
  if (event.after === null || event.after === undefined) return `takes ${event.before} back`;
  return event.before ? `${event.before} → ${event.after}` : event.after;
}
