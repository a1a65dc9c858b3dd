// Whether the server answers, as the frame finds out for the whole page.

import { createContext, useContext } from "react";

export const UpContext = createContext(true);
export const useIsUp = () => useContext(UpContext);
