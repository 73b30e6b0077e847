/** Reads the CPU time of processes from /proc (Linux). */
import { readdirSync, readFileSync } from 'node:fs'

/** Linux reports process times in USER_HZ ticks, 100 a second on every architecture Node runs on. */
const MICROSECONDS_PER_TICK = 10_000

/** User and system time in us that a process, all its threads and its living descendants have used so far. */
export function cpuMicroseconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  // The command name, field 2, may hold spaces and parentheses: count from its last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const own = (Number(fields[11]) + Number(fields[12])) * MICROSECONDS_PER_TICK
  return childrenOf(pid).reduce((sum, child) => sum + cpuMicroseconds(child), own)
}

/** The living processes that this one has started. */
export function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1')
      .split(' ')
      .filter((child) => child.trim() !== '')
      .map(Number),
  )
}
