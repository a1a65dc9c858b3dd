/** Whom the feed offers to be. */
export const feedUsers = ["ann", "ben", "cho", "dana"];
