import { PageTitle } from "../parts/basics";

export default function Counters() {
  return <PageTitle title="Counters" />;
}
