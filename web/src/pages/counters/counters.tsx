// All counters: found by a pattern, sorted, live.

import { useCallback, useDeferredValue, useEffect, useMemo, useState } from "react";
import { asProblem, call, newKey, query, type Page } from "../../lib/api";
import { useHasDemo } from "../../lib/demo";
import { compact, exact } from "../../lib/format";
import { TYPING_MS, useLive, useSettled } from "../../lib/hooks";
import { ageText, usePaged } from "../../lib/pages";
import { Link } from "../../lib/router";
import { Badge, Button, Card, Count, Empty, Field, fieldLook, Trouble } from "../../parts/basics";
import { notify, useTrouble } from "../../parts/notices";
import { WaitingRows } from "../../parts/paged";
import { Cell, HeadCell, Rows } from "../../parts/rows";
import { TaskNote } from "../../parts/task";
import { PageTitle } from "../../parts/title";
import { countedText, rowsOf, sorted, type Listed, type Row, type Sort } from "./listed";
import { askedOf, filterOf, patternOf } from "./search";

const COLUMNS = "grid-cols-[minmax(0,1fr)_6rem] sm:gap-x-6 sm:grid-cols-[minmax(0,1fr)_12rem_5rem_5rem]";
const PAGE = 1000;
const MOST = 100_000; // more than that nobody looks through
const EVERY_MS = 2000; // while there is nothing: somebody may do what the page advises

function SortHead({ name, sort, now, isDown, onSort, className = "" }: {
  name: string;
  sort: Sort;
  now: Sort;
  isDown: boolean;
  onSort: (sort: Sort) => void;
  className?: string;
}) {
  const isNow = sort === now;
  return (
    <div role="columnheader" aria-sort={isNow ? (isDown ? "descending" : "ascending") : "none"} className={className}>
      <button type="button" className="-mx-1 inline-flex items-center gap-1 rounded px-1 py-0.5 hover:bg-raised hover:text-ink" onClick={() => onSort(sort)}>
        {name}
        <span aria-hidden="true" className={isNow ? "" : "invisible"}>{isDown ? "↓" : "↑"}</span>
      </button>
    </div>
  );
}

/** Lights up for a moment when it moves: it is another element then, and its animation begins anew. */
function LiveCount({ row }: { row: Row }) {
  const live = useLive(row.id);
  if (live === null) return <span className="px-1.5 text-soft">deleted</span>;
  const value = live ?? row.value;
  return (
    <span key={value} className={`rounded px-1.5 py-1 font-medium ${value === row.value ? "" : "just-changed"}`}>
      <Count value={value} className="sm:hidden" />
      <span className="hidden tabular-nums sm:inline" title={exact(value)}>{value.length > 18 ? compact(value) : exact(value)}</span>
    </span>
  );
}

export default function Counters() {
  const hasDemo = useHasDemo();
  const [typed, setTyped] = useState("");
  const pattern = patternOf(useSettled(typed.trim(), TYPING_MS));
  const match = askedOf(pattern);
  const [sort, setSort] = useState<Sort>("value");
  const [isDown, setDown] = useState(true);
  const [task, setTask] = useState<number>();
  const [isNothing, setNothing] = useState(false);
  const listed = usePaged<Listed>(async (cursor, signal) => {
    const page = await call<Page & { counters: Listed[] }>(`/v1/counters${query({ match, cursor, limit: PAGE })}`, { signal });
    return { ...page, rows: page.counters };
  }, match, isNothing ? EVERY_MS : 0);
  const { more, isLoading, isWhole } = listed;
  useEffect(() => setNothing(match === "*" && isWhole && listed.rows.length === 0), [match, isWhole, listed.rows.length]);
  const isFull = listed.rows.length >= MOST;
  useEffect(() => {
    if (!isLoading && !isWhole && !isFull && !listed.problem) more();
  }, [more, isLoading, isWhole, isFull, listed.problem, listed.rows.length]);
  const shownRows = useDeferredValue(listed.rows); // sorting may lag behind, typing may not
  const rows = useMemo(() => {
    const isMeant = filterOf(pattern);
    return sorted(rowsOf(shownRows).filter((row) => isMeant(row.id)), sort, isDown);
  }, [shownRows, pattern, sort, isDown]);
  const onSort = useCallback((next: Sort) => {
    setDown((before) => (next === sort ? !before : next === "value"));
    setSort(next);
  }, [sort]);
  const recount = async () => {
    try {
      setTask((await call<{ task: number }>("/v1/recounts", { json: { match }, key: newKey() })).task);
    } catch (error) {
      notify("bad", `They are not recounted: ${asProblem(error).text}`);
    }
  };
  useTrouble(rows.length > 0 ? listed.problem : undefined);
  const age = ageText(listed.oldAsOf);
  const foot = `${countedText(rows)}${isWhole ? "" : isFull ? "; there are more: narrow the search" : ", loading more…"}${age && `; ${age}`}`;
  return (
    <>
      <PageTitle title="Counters">Everything that is counted, in memory or not. Values move while you look at them.</PageTitle>
      <form role="search" className="mb-4 flex flex-wrap items-end gap-3" onSubmit={(event) => event.preventDefault()}>
        <div className="min-w-56 flex-1 sm:max-w-md">
          <Field label="Part of a name, or a pattern such as video*/like">
            <input type="search" className={fieldLook} value={typed} spellCheck={false} autoComplete="off" placeholder="*"
              onChange={(event) => setTyped(event.target.value)} />
          </Field>
        </div>
        <Button icon="check" onClick={() => void recount()}>Recount these</Button>
      </form>
      {task !== undefined && <div className="mb-4"><TaskNote task={task} /></div>}
      <Card>
        {rows.length === 0 && listed.problem ? (
          <div className="p-4"><Trouble problem={listed.problem} onAgain={listed.reload} /></div>
        ) : rows.length === 0 && !(isWhole && shownRows === listed.rows) ? (
          <WaitingRows label="Counters" />
        ) : rows.length === 0 ? (
          <Empty icon="counters" title={pattern === "*" ? "Nothing is counted yet" : "Nothing has such a name"}>
            {pattern === "*" ? (
              <>A counter begins with its first write: {hasDemo && <>like a post in the <Link to={[]} className="text-accent-text underline">demo</Link>, or{" "}</>}
                <code className="font-mono">curl -X POST {window.location.origin}/v1/counters/views/add</code></>
            ) : <>Patterns know <code className="font-mono">*</code>, <code className="font-mono">?</code> and <code className="font-mono">[abc]</code>.</>}
          </Empty>
        ) : (
          <Rows label="Counters" rows={rows} columns={COLUMNS} keyOf={(row) => row.id} foot={foot}
            head={
              <>
                <SortHead name="Name" sort="id" now={sort} isDown={isDown} onSort={onSort} />
                <SortHead name="Value" sort="value" now={sort} isDown={isDown} onSort={onSort} className="pr-1.5 text-right" />
                <HeadCell className="hidden sm:block">Kind</HeadCell>
                <HeadCell className="hidden sm:block">Kept in</HeadCell>
              </>
            }>
            {(row) => (
              <>
                <Cell>
                  <Link to={["counters", row.id]} className="font-mono text-accent-text hover:underline">{row.id}</Link>
                </Cell>
                <Cell className="text-right"><LiveCount row={row} /></Cell>
                <Cell className="hidden sm:block">{row.item === null ? "counter" : "reaction"}</Cell>
                <Cell className="hidden sm:block"><Badge tone={row.isHot ? "accent" : "plain"}>{row.isHot ? "memory" : "store"}</Badge></Cell>
              </>
            )}
          </Rows>
        )}
      </Card>
    </>
  );
}
