// How the server is, in one sentence: the worst that is known.

import type { Status } from "../lib/status";
import type { Tone } from "../parts/basics";

export interface Verdict {
  tone: Tone;
  text: string;
  to?: string[]; // where something can be done about it
}

/** `isUp`: it answers; what it has said before is no news otherwise. */
export function verdict(status: Status | undefined, isUp: boolean): Verdict {
  if (!isUp) return { tone: "bad", text: "The server does not answer" };
  if (!status) return { tone: "plain", text: "…" };
  if (status.parts.some((part) => !part.ok && part.needed)) return { tone: "bad", text: "Writes are not possible" };
  if (status.parts.some((part) => !part.ok)) return { tone: "warn", text: "Works, but a part is down" };
  const letters = status.pipeline?.dead_letters ?? 0;
  if (letters > 0)
    return { tone: "warn", text: `${letters} dead letter${letters === 1 ? " waits" : "s wait"} for a decision`, to: ["pipeline", "dead-letters"] };
  if ((status.pipeline?.retrying ?? 0) > 0) return { tone: "warn", text: "The store refuses some changes; they are tried again", to: ["pipeline", "RETRYING"] };
  return { tone: "good", text: "All is well" };
}
