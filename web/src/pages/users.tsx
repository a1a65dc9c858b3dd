// What a user has reacted to, and how to be forgotten.

import { useEffect, useState } from "react";
import { call, newKey, path, query, type Page } from "../lib/api";
import { demoId, demoUsers, useHasDemo } from "../lib/demo";
import { usePaged } from "../lib/pages";
import { go, Link } from "../lib/router";
import { Badge, Button, Card, Empty, Field, fieldLook } from "../parts/basics";
import { Confirm } from "../parts/dialog";
import { PagedList } from "../parts/paged";
import { Cell, HeadCell } from "../parts/rows";
import { TaskNote } from "../parts/task";
import { PageTitle } from "../parts/title";

interface Held {
  item: string;
  reaction: string;
}

const COLUMNS = "grid-cols-[minmax(0,1fr)_6rem] md:grid-cols-[minmax(0,32rem)_8rem]";

function Reactions({ user }: { user: string }) {
  const held = usePaged<Held>(async (cursor, signal) => {
    const page = await call<Page & { reactions: Held[] }>(path("/v1/users/", user, `/reactions${query({ cursor, limit: 500 })}`), { signal });
    return { ...page, rows: page.reactions };
  }, user);
  const [isAsked, setAsked] = useState(false);
  const [task, setTask] = useState<number>();
  const erase = async () => {
    const answer = await call<{ task: number }>(path("/v1/users/", user), { method: "DELETE", key: newKey() });
    setTask(answer.task);
  };
  return (
    <div className="flex flex-col gap-4">
      {task !== undefined && <TaskNote task={task} onDone={held.reload} />}
      <Card title={user} aside={<Button look="danger" onClick={() => setAsked(true)}>Erase this user</Button>}>
        <PagedList label={`Reactions of ${user}`} paged={held} things="reactions" rowHeight={44} columns={COLUMNS} keyOf={(row) => row.item}
          empty={<Empty icon="users" title="No reactions">This user holds no reaction on anything, or was never here.</Empty>}
          head={<><HeadCell>Item</HeadCell><HeadCell>Reaction</HeadCell></>}>
          {(row) => (
            <>
              <Cell>
                <Link className="font-mono text-accent-text hover:underline" to={["counters", `${row.item}/${row.reaction}`]}>
                  {row.item}
                </Link>
              </Cell>
              <Cell><Badge tone="accent">{row.reaction}</Badge></Cell>
            </>
          )}
        </PagedList>
      </Card>
      {isAsked && (
        <Confirm title={`Erase ${user}?`} action="Erase" word={user} onConfirm={erase} onClose={() => setAsked(false)}>
          All reactions of this user are withdrawn, the counts follow, and when it is done no file holds the name any more. This cannot be taken back.
        </Confirm>
      )}
    </div>
  );
}

export default function Users({ user }: { user?: string }) {
  const hasDemo = useHasDemo();
  const [typed, setTyped] = useState(user ?? "");
  useEffect(() => setTyped(user ?? ""), [user]);
  return (
    <>
      <PageTitle title="Users">What somebody has reacted to, and how to be forgotten.</PageTitle>
      <form className="mb-4 flex max-w-md items-end gap-2" role="search"
        onSubmit={(event) => { event.preventDefault(); if (typed) go("users", typed); }}>
        <div className="grow">
          <Field label="User">
            <input className={fieldLook} value={typed} maxLength={256} spellCheck={false} autoComplete="off" placeholder="ann"
              onChange={(event) => setTyped(event.target.value)} />
          </Field>
        </div>
        <Button type="submit" icon="search" look="main">Show</Button>
      </form>
      {user ? <Reactions key={user} user={user} /> : (
        <Card>
          <Empty icon="users" title="Whom are you looking for?">
            Type the id of a user as your application sends it{hasDemo ? <>, or look at somebody of the demo:{" "}
              {demoUsers.map((name, i) => (
                <span key={name}>{i > 0 && ", "}<Link to={["users", demoId(name)]} className="text-accent-text underline">{demoId(name)}</Link></span>
              ))}
            </> : "."}
          </Empty>
        </Card>
      )}
    </>
  );
}
