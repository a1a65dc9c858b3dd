import { PageTitle } from "../parts/basics";

export default function Counter({ id }: { id: string }) {
  return <PageTitle title={id} />;
}
