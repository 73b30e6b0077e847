/** What the kernel says of processes and of the machine (Linux). */
import { readdirSync, readFileSync } from 'node:fs'
import { sum } from './statistics.ts'

/** Linux reports process times in USER_HZ ticks, 100 a second on every architecture Node runs on. */
const MICROSECONDS_PER_TICK = 10_000

/** User and system time in us that a process, all its threads and its living descendants have used so far. */
export function cpuMicroseconds(pid: number): number {
  const [user = NaN, system = NaN] = timesOf(pid)
  return sum(childrenOf(pid).map(cpuMicroseconds)) + user + system
}

/** The same of those children of this process that have ended, once they are waited for. */
export const endedMicroseconds = (): number => sum(timesOf('self').slice(2))

/** In us: user and system time, and those of the children that have ended. */
function timesOf(pid: number | 'self'): number[] {
  const stat = read(`/proc/${pid}/stat`)
  // The command name, field 2, may hold spaces and parentheses: count from its last one.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields.slice(11, 15).map((ticks) => Number(ticks) * MICROSECONDS_PER_TICK)
}

/** Time in us that a process, all its threads and its living descendants were ready to run and had no processor. */
export function waitMicroseconds(pid: number): number {
  const own = threadsOf(pid).map((thread) => {
    const [, waitedNanoseconds] = read(`/proc/${pid}/task/${thread}/schedstat`).split(' ')
    return Number(waitedNanoseconds) / 1_000
  })
  return sum(childrenOf(pid).map(waitMicroseconds)) + sum(own)
}

/** The living processes that this one has started. */
export function childrenOf(pid: number): number[] {
  return threadsOf(pid).flatMap((thread) =>
    read(`/proc/${pid}/task/${thread}/children`)
      .split(' ')
      .filter((child) => child.trim() !== '')
      .map(Number),
  )
}

/** Ticks of all processors since the machine started, and those of them that its host gave to other machines. */
export function machineTicks(): { readonly all: number; readonly stolen: number } {
  const [, ...ticks] = read('/proc/stat').split('\n', 1)[0]?.split(/ +/).map(Number) ?? []
  // The fields after steal, guest times, are counted in user time already.
  return { all: sum(ticks.slice(0, 8)), stolen: ticks[7] ?? 0 }
}

/** Bytes of RAM the process occupies now. */
export const rssBytes = (pid: number): number => statusField(pid, 'VmRSS') * 1024

/** Bytes of RAM the process has occupied at most. */
export const peakRssBytes = (pid: number): number => statusField(pid, 'VmHWM') * 1024

/** How many files and sockets a process started from here may have open. */
export function openFilesLimit(): number {
  const line = /^Max open files\s+(\S+)\s+(\S+)/m.exec(read('/proc/self/limits'))
  // Node.js raises the soft limit to the hard one as it starts.
  return line?.[2] === 'unlimited' ? Infinity : Number(line?.[2] ?? NaN)
}

function statusField(pid: number, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(read(`/proc/${pid}/status`))?.[1])
}

const threadsOf = (pid: number): string[] => readdirSync(`/proc/${pid}/task`)
const read = (file: string): string => readFileSync(file, 'latin1')
