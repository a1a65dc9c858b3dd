// The newest events of a counter, as the log has them.

import { call, LONG_MS, path, query, type Page } from "../../lib/api";
import { effectOf, whatHappened, type Event as CounterEvent } from "../../lib/events";
import { clock, exact, moment } from "../../lib/format";
import { usePaged } from "../../lib/pages";
import { Link } from "../../lib/router";
import { Badge, Card, Empty } from "../../parts/basics";
import { PagedList } from "../../parts/paged";
import { Cell, HeadCell } from "../../parts/rows";

const PAGE = 200;
const EVERY_MS = 2000;
const COLUMNS = "grid-cols-[4.5rem_minmax(0,1fr)_3.5rem] md:grid-cols-[7rem_minmax(0,1fr)_8rem_8rem]";

/** `kind`: of a reaction, whose events name users. */
export function NewestEvents({ id, kind }: { id: string; kind: string | null }) {
  const events = usePaged<CounterEvent>(async (cursor, signal) => {
    const page = await call<Page & { events: CounterEvent[] }>(path("/v1/counters/", id, `/events${query({ cursor, limit: PAGE })}`), { signal, timeoutMs: LONG_MS });
    return { ...page, rows: page.events };
  }, id, EVERY_MS);
  return (
    <Card title="Newest events" aside={<Badge tone="good">live</Badge>}>
      <PagedList label="Newest events" paged={events} things="events" rowHeight={40} columns={COLUMNS} keyOf={(event) => `${event.origin}-${event.sequence}`}
        empty={<Empty icon="pipeline" title="No events yet" />}
        head={
          <>
            <HeadCell>When</HeadCell><HeadCell>{kind === null ? "What" : "Who and what"}</HeadCell><HeadCell className="text-right">Change</HeadCell>
            <HeadCell className="hidden text-right md:block">Cell / sequence</HeadCell>
          </>
        }>
        {(event) => (
          <>
            <Cell className="text-soft tabular-nums"><time dateTime={event.time} title={moment(event.time)}>{clock(event.time)}</time></Cell>
            <Cell>
              {event.user !== undefined && <><Link to={["users", event.user]} className="font-mono text-accent-text hover:underline">{event.user}</Link>{" "}</>}
              <span className="text-soft">{whatHappened(event)}</span>
              {event.region && <span className="text-soft"> from {event.region}</span>}
            </Cell>
            <Cell className="text-right font-medium tabular-nums">{effectOf(event, kind)}</Cell>
            <Cell className="hidden text-right text-xs text-soft tabular-nums md:block">{event.origin} / {exact(String(event.sequence))}</Cell>
          </>
        )}
      </PagedList>
    </Card>
  );
}
