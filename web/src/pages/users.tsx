import { PageTitle } from "../parts/basics";

export default function Users({ user }: { user?: string }) {
  return <PageTitle title={user ?? "Users"} />;
}
