/** A destination of a log that passes on each line at once, and keeps nothing back. */
export const passing = (write: (line: string) => unknown) => ({
  write: (...parts: string[]) => void write(parts.join('')),
  fault: undefined,
  lostLines: 0,
  flush: () => {},
  flushSync: () => {},
  close: () => Promise.resolve(),
})
