/** Bounds how much costly work runs and waits at once, and shares the turns by address. */
import { AddressLines } from './address-lines.ts'

/** running: pieces of work at once. waiting: pieces of work in all lines. */
export function createWorkGate(limits: { readonly running: number; readonly waiting: number }) {
  let running = 0
  const lines = new AddressLines<(mayRun: boolean) => void>(limits.waiting)
  const enter = (address: string): boolean | Promise<boolean> => {
    if (running >= limits.running)
      return new Promise((resolve) => lines.add(address, resolve)?.(false))
    running++
    return true
  }
  const leave = (): void => {
    const next = lines.next()
    // The place passes on to the next in line, so that a newcomer cannot take it first.
    if (next) next(true)
    else running--
  }
  return {
    /** Runs the work when its address has its turn, and resolves with its result; undefined, without running it, when too much waits. */
    run: async <T>(address: string, work: () => Promise<T>): Promise<T | undefined> => {
      if (!(await enter(address))) return undefined
      try {
        return await work()
      } finally {
        leave()
      }
    },
  }
}
