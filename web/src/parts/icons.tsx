// Line icons, drawn for the page, 24 by 24.

const paths = {
  like: "M7 21V10l4.5-7a2 2 0 0 1 2.500 2.400L13 9h5.500a2 2 0 0 1 2 2.400l-1.500 8A2 2 0 0 1 17 21H7ZM7 10H3.500v11H7",
  dislike: "M17 3v11l-4.500 7A2 2 0 0 1 10 18.600L11 15H5.500a2 2 0 0 1-2-2.400l1.500-8A2 2 0 0 1 7 3h10Zm0 11h3.500V3H17",
  feed: "M4 5h16M4 10h16M4 15h10M4 20h7",
  overview: "M3 20h18M6 16l4-5 3.500 3L19 7",
  counters: "M6 4v16M11 4v16M16 4v16M21 4v16M3 16.500 23 8",
  pipeline: "M3 12h4m10 0h4M7 8h10v8H7zM12 3v5m0 8v5",
  users: "M12 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM4.500 21a7.500 7.500 0 0 1 15 0",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM12 2v2m0 16v2M4.900 4.900l1.400 1.400m11.400 11.400 1.400 1.400M2 12h2m16 0h2M4.900 19.100l1.400-1.400M17.700 6.300l1.400-1.400",
  moon: "M20 14.500A8.500 8.500 0 0 1 9.500 4a8.500 8.500 0 1 0 10.500 10.500Z",
  auto: "M4 5h16v11H4zM9 20h6m-3-4v4",
  close: "M6 6l12 12M18 6 6 18",
  search: "M10.500 17a6.500 6.500 0 1 0 0-13 6.500 6.500 0 0 0 0 13Zm5-1.500L21 21",
  rocket: "M13 4c4-2 7-1 7-1s1 3-1 7l-6 7-6-6zM9 13l-4 .500L3 17l4.500-.500M11 15l-.500 4L14 21l.500-4.500",
  door: "M4 12h11m-4-4 4 4-4 4M15 4h5v16h-5",
  bolt: "M13 3 5 14h6l-1 7 8-11h-6z",
  log: "M6 3h9l4 4v14H6zM10 11h5m-5 4h5",
  stack: "M12 3 3 7.500l9 4.500 9-4.500zM3 12l9 4.500 9-4.500M3 16.500 12 21l9-4.500",
  database: "M5 6c0-1.700 3.100-3 7-3s7 1.300 7 3-3.100 3-7 3-7-1.300-7-3Zm0 0v12c0 1.700 3.100 3 7 3s7-1.300 7-3V6M5 12c0 1.700 3.100 3 7 3s7-1.300 7-3",
  back: "M15 5l-7 7 7 7",
  next: "M9 5l7 7-7 7",
  check: "M4 12.500 9.500 18 20 6.500",
  warning: "M12 4 2.500 20h19zM12 10v5m0 2.500v.010",
  refresh: "M20 11a8 8 0 0 0-14.500-3.500L3 10m0-6v6h6M4 13a8 8 0 0 0 14.500 3.500L21 14m0 6v-6h-6",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, className = "size-5", filled = false }: {
  name: IconName;
  className?: string;
  filled?: boolean;
}) {
  return (
    <svg viewBox="0 0 24 24" className={`shrink-0 ${className}`} aria-hidden="true" stroke="currentColor" strokeWidth={1.75}
      strokeLinecap="round" strokeLinejoin="round" fill={filled ? "currentColor" : "none"} fillOpacity={filled ? 0.25 : 1}>
      <path d={paths[name]} />
    </svg>
  );
}
