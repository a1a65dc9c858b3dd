import { PageTitle } from "../parts/basics";

export default function Pipeline() {
  return <PageTitle title="Pipeline" />;
}
