import { PageTitle } from "../parts/basics";

export default function Overview() {
  return <PageTitle title="Overview" />;
}
