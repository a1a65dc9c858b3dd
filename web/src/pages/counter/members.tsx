// Who holds a reaction.

import { call, path, query, type Page } from "../../lib/api";
import { usePaged } from "../../lib/pages";
import { Link } from "../../lib/router";
import { Card, Empty } from "../../parts/basics";
import { PagedList } from "../../parts/paged";
import { Cell, HeadCell } from "../../parts/rows";

const PAGE = 200;
const EVERY_MS = 2000;

export function Members({ item, kind }: { item: string; kind: string }) {
  const members = usePaged<string>(async (cursor, signal) => {
    const page = await call<Page & { members: string[] }>(path("/v1/items/", item, `/members${query({ kind, cursor, limit: PAGE })}`), { signal });
    return { ...page, rows: page.members };
  }, `${item}/${kind}`, EVERY_MS);
  return (
    <Card title="Members" aside={<span className="text-xs text-soft">users who hold “{kind}”</span>}>
      <PagedList label="Members" paged={members} things="members" rowHeight={40} columns="grid-cols-1" keyOf={(user) => user}
        empty={<Empty icon="users" title="Nobody" />} head={<HeadCell>User</HeadCell>}>
        {(user) => <Cell><Link to={["users", user]} className="font-mono text-accent-text hover:underline">{user}</Link></Cell>}
      </PagedList>
    </Card>
  );
}
