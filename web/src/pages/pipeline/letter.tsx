// One dead letter, with all that is known about it.

import { call, path } from "../../lib/api";
import { bytes, changeText, moment } from "../../lib/format";
import { useLoaded } from "../../lib/hooks";
import { Button, Trouble, Waiting } from "../../parts/basics";
import { Dialog } from "../../parts/dialog";

export interface Letter {
  event_id: string;
  counter: string | null;
  delta: string | null;
  reason: string;
  retry_count: number;
  created: string | null;
  failed: string | null;
  size_bytes: number;
}

/** In a dialog: its bytes are for who knows how to read them. */
export function Inspect({ id, onClose }: { id: string; onClose: () => void }) {
  const letter = useLoaded((signal) => call<Letter & { raw: string }>(path("/v1/dlq/", id), { signal }), id);
  return (
    <Dialog title="Dead letter" onClose={onClose}>
      {letter.problem && <Trouble problem={letter.problem} />}
      {!letter.data && !letter.problem && <div className="h-96"><Waiting className="h-5 w-48" /></div>}
      {letter.data && (
        <dl className="flex flex-col gap-3 text-sm">
          {[["Event", letter.data.event_id], ["Counter", letter.data.counter ?? "unknown"], ["Change", letter.data.delta === null ? "unknown" : changeText(letter.data.delta)],
            ["Why it was refused", letter.data.reason], ["Retries", String(letter.data.retry_count)],
            ["Failed", letter.data.failed ? moment(letter.data.failed) : "–"]].map(([name, value]) => (
            <div key={name}><dt className="text-xs text-soft">{name}</dt><dd className="break-words">{value}</dd></div>
          ))}
          <div>
            <dt className="text-xs text-soft">Its bytes, {bytes(letter.data.size_bytes)}</dt>
            <dd className="max-h-40 overflow-y-auto rounded bg-raised p-2 font-mono text-xs break-all" tabIndex={0}>{letter.data.raw}</dd>
          </div>
        </dl>
      )}
      <div className="mt-4 flex justify-end"><Button onClick={onClose}>Close</Button></div>
    </Dialog>
  );
}
