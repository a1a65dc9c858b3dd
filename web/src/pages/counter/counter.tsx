// One counter: its value, its shards, where it comes from, and the proof of it.

import { useEffect, useState } from "react";
import { call, newKey, path } from "../../lib/api";
import { useDescribed } from "../../lib/described";
import { useLive } from "../../lib/hooks";
import { Link } from "../../lib/router";
import { useStatus } from "../../lib/status";
import { Button, Card } from "../../parts/basics";
import { Confirm } from "../../parts/dialog";
import { Icon } from "../../parts/icons";
import { ShardsPicture } from "../../parts/shards";
import { PageTitle } from "../../parts/title";
import { NewestEvents } from "./events";
import { History } from "./history";
import { Members } from "./members";
import { ProofCard } from "./proof";
import { ValueCard } from "./value";

/** "video/like" is the counter of a reaction, if "video" is an item. */
function partsOf(id: string): { item: string; kind: string } | null {
  const slash = id.lastIndexOf("/");
  return slash < 0 ? null : { item: id.slice(0, slash), kind: id.slice(slash + 1) };
}

export default function Counter({ id }: { id: string }) {
  const told = useLive(id);
  const about = useDescribed(id, 1000);
  const isGone = about.problem?.status === 404;
  const live = isGone ? null : told; // the likes of what nobody has ever liked are told as 0
  const { reload } = about;
  useEffect(() => {
    if (isGone) reload();
  }, [told, reload]); // it moves: it may be there now
  const [isResetting, setResetting] = useState(false);
  const forms = useStatus().data?.forms;
  const hasPast = (forms?.log ?? "file") === "file"; // a log that many nodes share cannot be searched for one counter
  const parts = partsOf(id);
  const reaction = about.data?.kind === "item" ? parts : null;
  const isCounter = about.data ? about.data.kind === "counter" : parts === null; // so that the button is there from the start
  const reset = async () => {
    await call(path("/v1/counters/", id, "/reset"), { json: { value: 0 }, key: newKey() });
    about.reload();
  };
  return (
    <>
      <Link to={["counters"]} className="mb-2 inline-flex items-center gap-1 rounded text-sm text-soft hover:text-ink">
        <Icon name="back" className="size-4" />Counters
      </Link>
      <PageTitle title={id} aside={isCounter && <Button look="danger" disabled={!about.data} onClick={() => setResetting(true)}>Reset to 0</Button>} />
      <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
        <ValueCard live={live} about={about} />
        <Card title="Shards">
          <div className="min-h-59 p-4">
            {about.data && <ShardsPicture shards={about.data.shards} home={about.data.home} values={about.data.shard_values} />}
          </div>
        </Card>
        <History id={id} live={live} hasPast={hasPast} />
        <ProofCard id={id} live={live} />
      </div>
      {about.data && (
        <div className={`mt-4 grid grid-cols-1 gap-4 ${reaction ? "xl:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]" : ""}`}>
          {hasPast && <NewestEvents id={id} kind={reaction?.kind ?? null} />}
          {reaction && <Members item={reaction.item} kind={reaction.kind} />}
        </div>
      )}
      {isResetting && (
        <Confirm title={`Reset ${id} to 0?`} action="Reset" onConfirm={reset} onClose={() => setResetting(false)}>
          The counter begins again at 0. The reset is an event like any other: what was before stays in the log, and in the proof.
        </Confirm>
      )}
    </>
  );
}
