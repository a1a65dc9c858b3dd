// The dead letters: what the store has refused, and what somebody decides about it, of one or of many.

import { useState } from "react";
import { asProblem, call, newKey, path, query, type Page } from "../../lib/api";
import { ago, changeText, moment } from "../../lib/format";
import { usePaged, type Paged } from "../../lib/pages";
import { Button, Card, Empty } from "../../parts/basics";
import { Confirm } from "../../parts/dialog";
import { notify } from "../../parts/notices";
import { PagedList } from "../../parts/paged";
import { Cell, HeadCell } from "../../parts/rows";
import { Inspect, type Letter } from "./letter";

type Verb = "redrive" | "discard";

/** What somebody is about to do: it stays as it was asked, whatever comes and goes in the list meanwhile. */
interface Plan {
  verb: Verb;
  whom: string[] | "all";
}

const EVERY_MS = 2000;
const PAGE = 200;
const COLUMNS = "grid-cols-[1.5rem_minmax(0,1fr)_5rem] md:grid-cols-[1.5rem_minmax(0,1fr)_8rem_minmax(0,1.5fr)_8rem_5rem]";

const questions: Record<Verb, { action: string; look: "main" | "danger"; text: string; done: string }> = {
  redrive: { action: "Try again", look: "main", text: "Each goes back into the pipeline, with all its retries before it.", done: "tried again" },
  discard: { action: "Discard", look: "danger", text: "They will never be counted; the audit trail says so. This cannot be taken back.", done: "discarded" },
};

function titleOf({ verb, whom }: Plan): string {
  const name = whom === "all" ? "all" : `${whom.length} chosen`;
  return verb === "redrive" ? `Try ${name} again` : `Discard ${name}`;
}

async function dealWithAll(verb: Verb): Promise<void> {
  await call(`/v1/dlq/${verb}`, { method: "POST", key: newKey() });
}

/** One that is not there any more was dealt with by somebody else: that is what was wanted. */
async function dealWithOne(verb: Verb, id: string): Promise<void> {
  try {
    await call(path("/v1/dlq/", id), { method: verb === "redrive" ? "POST" : "DELETE", key: newKey() });
  } catch (error) {
    if (asProblem(error).status !== 404) throw error;
  }
}

/** What is chosen, as far as it is still there: letters go when somebody deals with them, here or elsewhere. One that is not in the list
 * has gone only if the list is whole: it may be on a page further down. */
export function chosenOf(ticked: string[], { rows, isWhole }: Pick<Paged<Letter>, "rows" | "isWhole">): string[] {
  if (!isWhole) return ticked;
  const there = new Set(rows.map((letter) => letter.event_id));
  return ticked.filter((id) => there.has(id));
}

function useChosen(letters: Paged<Letter>): { chosen: string[]; tick: (id: string) => void; untick: (id: string) => void } {
  const [ticked, setTicked] = useState<string[]>([]);
  return {
    chosen: chosenOf(ticked, letters),
    tick: (id) => setTicked((before) => [...before, id]),
    untick: (id) => setTicked((before) => before.filter((other) => other !== id)),
  };
}

export function DeadLetters() {
  const letters = usePaged<Letter>(async (cursor, signal) => {
    const page = await call<Page & { letters: Letter[] }>(`/v1/dlq${query({ cursor, limit: PAGE })}`, { signal });
    return { ...page, rows: page.letters };
  }, "letters", EVERY_MS);
  const { chosen, tick, untick } = useChosen(letters);
  const [inspected, setInspected] = useState<string>();
  const [plan, setPlan] = useState<Plan>();
  const whom = chosen.length > 0 ? chosen : "all";
  const carryOut = async (what: Plan) => {
    const { done } = questions[what.verb];
    try {
      if (what.whom === "all") {
        await dealWithAll(what.verb);
        notify("good", `All are ${done}.`);
        return;
      }
      for (const id of what.whom) {
        await dealWithOne(what.verb, id);
        untick(id);
      }
      notify("good", `${what.whom.length} ${what.whom.length === 1 ? "is" : "are"} ${done}.`);
    } finally {
      letters.reload();
    }
  };
  const isEmpty = letters.rows.length === 0;
  return (
    <Card>
      <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line p-4">
        <p className="min-w-48 flex-1 text-sm text-soft">What the store answered to, and refused, each time that it was tried. It waits here for a decision.</p>
        <div className="flex flex-wrap gap-2">
          {(["redrive", "discard"] as const).map((verb) => (
            <Button key={verb} look={verb === "discard" ? "danger" : "plain"} disabled={isEmpty} onClick={() => setPlan({ verb, whom })}>
              {titleOf({ verb, whom })}
            </Button>
          ))}
        </div>
      </div>
      <PagedList label="Dead letters" paged={letters} things="dead letters" rowHeight={48} columns={COLUMNS} keyOf={(letter) => letter.event_id}
        empty={<Empty icon="check" title="No dead letters">Nothing that was counted has been refused by the store.</Empty>}
        head={
          <>
            <HeadCell><span className="sr-only">Choose</span></HeadCell><HeadCell>Counter</HeadCell>
            <HeadCell className="hidden md:block">Change</HeadCell><HeadCell className="hidden md:block">Why</HeadCell>
            <HeadCell className="hidden md:block">Failed</HeadCell><HeadCell><span className="sr-only">Look</span></HeadCell>
          </>
        }>
        {(letter) => (
          <>
            <Cell>
              <input type="checkbox" className="block size-4 accent-accent" checked={chosen.includes(letter.event_id)}
                onChange={(event) => (event.target.checked ? tick : untick)(letter.event_id)}
                aria-label={`Choose ${letter.counter ?? letter.event_id}`} />
            </Cell>
            <Cell>
              <p className="truncate font-mono text-xs" title={letter.counter ?? undefined}>{letter.counter ?? "unknown"}</p>
              <p className="truncate text-xs text-soft md:hidden">{letter.reason}</p>
            </Cell>
            <Cell className="hidden tabular-nums md:block">{letter.delta === null ? "unknown" : changeText(letter.delta)}</Cell>
            <Cell className="hidden md:block"><span title={letter.reason}>{letter.reason}</span></Cell>
            <Cell className="hidden text-soft md:block">{letter.failed ? <span title={moment(letter.failed)}>{ago(letter.failed)}</span> : "–"}</Cell>
            <Cell className="text-right">
              <button type="button" className="rounded px-1 text-accent-text hover:underline" onClick={() => setInspected(letter.event_id)}>Inspect</button>
            </Cell>
          </>
        )}
      </PagedList>
      {inspected && <Inspect id={inspected} onClose={() => setInspected(undefined)} />}
      {plan && (
        <Confirm title={`${titleOf(plan)}?`} action={questions[plan.verb].action} look={questions[plan.verb].look} onConfirm={() => carryOut(plan)} onClose={() => setPlan(undefined)}>
          {questions[plan.verb].text}
        </Confirm>
      )}
    </Card>
  );
}
