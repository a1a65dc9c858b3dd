// The proof of a counter: all its events, added up once more.
//
// Tasks tell how far they are in counters, and this is one: there is nothing to fill a bar with. What can be told is for how long.

import { useEffect, useRef, useState } from "react";
import { asProblem, call, LONG_MS, path, type Problem } from "../../lib/api";
import { clock, exact, moment } from "../../lib/format";
import { Button, Card, Trouble } from "../../parts/basics";
import { Icon } from "../../parts/icons";
import { Fact } from "./fact";

interface Proof {
  value: string;
  recount: string;
  base: string;
  discarded: string;
  events: number;
  agrees: boolean;
  from?: string; // with many nodes: "log", or "store" where the log's beginning is gone
  log_begins?: string;
  store?: string;
  members?: string;
  as_of: string;
}

function Counting() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((before) => before + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <progress className="bar" aria-label="Counting" />
      <p className="text-soft">Reading the log, event by event<span aria-hidden="true">{seconds > 0 && `: ${seconds} s`}</span>.</p>
    </>
  );
}

const MOMENT_MS = 5000; // what is shown may be so much older than a proof

/** Whether the counter is another than it was when it was proved. What is shown may be a moment older than the proof: that is no change. */
function useHasChanged(proof: Proof, live: string | null | undefined): boolean {
  const atProof = useRef(live); // until it is what was proved: from then on, what was before is a change
  const [hasChanged, setChanged] = useState(false);
  useEffect(() => {
    if (live === undefined) return;
    if (live === proof.value) {
      atProof.current = live;
      return;
    }
    if (live !== atProof.current) {
      setChanged(true);
      return;
    }
    const timer = setTimeout(() => setChanged(true), MOMENT_MS);
    return () => clearTimeout(timer);
  }, [live, proof.value]);
  return hasChanged;
}

function Verdict({ proof, live }: { proof: Proof; live: string | null | undefined }) {
  const isOfStore = proof.from === "store";
  const hasChanged = useHasChanged(proof, live);
  const then = clock(proof.as_of);
  const look = hasChanged ? "bg-raised text-soft" : proof.agrees ? "bg-good-soft text-good" : "bg-bad-soft text-bad";
  return (
    <>
      <p className={`flex items-center gap-2 rounded-lg px-3 py-2 font-medium ${look}`}>
        <Icon name={hasChanged ? "refresh" : proof.agrees ? "check" : "warning"} />
        {hasChanged
          ? `The number${proof.agrees ? " was proved" : "s differed"} at ${then}. The counter has changed since: recount it.`
          : `The number${proof.agrees ? " is proved" : "s differ"}, as of ${then}`}
      </p>
      {isOfStore && (
        <p className="text-soft">
          The log’s beginning is gone{proof.log_begins && <>: it has everything since {moment(proof.log_begins)}</>}. The places where the number is kept were compared with each other.
        </p>
      )}
      <dl className="grid grid-cols-2 gap-4">
        <Fact name="The counter says">{exact(proof.value)}</Fact>
        <Fact name={isOfStore ? "The other places say" : "Counted from its events"}>{exact(proof.recount)}</Fact>
        <Fact name="Events">{exact(String(proof.events))}</Fact>
        <Fact name="Before the log begins">{exact(proof.base)}</Fact>
        {proof.discarded !== "0" && <Fact name="Discarded as dead letters">{exact(proof.discarded)}</Fact>}
        {proof.store !== undefined && <Fact name="In the store">{exact(proof.store)}</Fact>}
        {proof.members !== undefined && <Fact name="Members">{exact(proof.members)}</Fact>}
      </dl>
    </>
  );
}

export function ProofCard({ id, live }: { id: string; live: string | null | undefined }) {
  const [proof, setProof] = useState<Proof>();
  const [problem, setProblem] = useState<Problem>();
  const [isBusy, setBusy] = useState(false);
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []); // who goes away does not wait for it
  const recount = async () => {
    const { signal } = (stop.current = new AbortController());
    setBusy(true);
    setProof(undefined);
    setProblem(undefined);
    try {
      setProof(await call<Proof>(path("/v1/counters/", id, "/recount"), { method: "POST", signal, timeoutMs: LONG_MS }));
    } catch (error) {
      if (signal.aborted) return;
      setProblem(asProblem(error));
    }
    setBusy(false);
  };
  return (
    <Card title="Proof" aside={<Button icon="refresh" disabled={isBusy} onClick={() => void recount()}>{isBusy ? "Counting…" : "Recount"}</Button>}>
      <div className="flex min-h-48 flex-col gap-3 p-4 text-sm" role="status">
        {isBusy && <Counting />}
        {problem && <Trouble problem={problem} onAgain={() => void recount()} />}
        {proof && <Verdict key={proof.as_of} proof={proof} live={live} />}
        {!proof && !problem && !isBusy && <p className="text-soft">Adds up every event in the log, and compares with what is shown.</p>}
      </div>
    </Card>
  );
}
