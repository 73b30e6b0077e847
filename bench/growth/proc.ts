/** What the kernel says of a process's memory (Linux). */
import { readFileSync } from 'node:fs'

/** Bytes of RAM the process occupies now. */
export function rssBytes(pid: number): number {
  return statusField(pid, 'VmRSS') * 1024
}

/** Bytes of RAM the process has occupied at most. */
export function peakRssBytes(pid: number): number {
  return statusField(pid, 'VmHWM') * 1024
}

/** How many files and sockets a process started from here may have open. */
export function openFilesLimit(): number {
  const line = /^Max open files\s+(\S+)\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))
  // Node.js raises the soft limit to the hard one as it starts.
  return line?.[2] === 'unlimited' ? Infinity : Number(line?.[2] ?? NaN)
}

function statusField(pid: number, name: string): number {
  const text = readFileSync(`/proc/${pid}/status`, 'latin1')
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? NaN)
}
