/**
 * Tells systemd how this process fares (sd_notify(3)). Node.js has no datagrams between processes of one machine, but
 * systemd brings a command that has: a small shell runs it for each line it gets, as to fork this process would hold up requests.
 */
import { spawn } from 'node:child_process'
import { hrtime } from 'node:process'
import type { Environment } from '../config/environment.ts'

export interface ServiceManager {
  /** From here on it is also told, as often as it asks for, that the event loop turns. */
  ready(): void
  /** ready() is said when that is over. */
  reloading(): void
  stopping(): void
}

/** A line is up to two assignments, apart by a tab. */
const SCRIPT = `while IFS='\t' read -r one two; do
  systemd-notify "$one" \${two:+"$two"} || exit
done`

const NOBODY: ServiceManager = { ready() {}, reloading() {}, stopping() {} }

/** onFault: called once if it cannot be told. */
export function createServiceManager(
  { NOTIFY_SOCKET: socket, WATCHDOG_USEC: watchdogUs }: Environment,
  onFault: (fault: Error) => void,
): ServiceManager {
  if (socket === undefined) return NOBODY
  let watchdog: NodeJS.Timeout | undefined
  const shell = spawn('/bin/sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'] })
  const fail = (cause: string): void => {
    clearInterval(watchdog)
    onFault(new Error(`systemd cannot be told how this service fares: ${cause}`))
  }
  shell.on('error', ({ message }) => fail(message))
  shell.on('exit', (code) => fail(`systemd-notify has ended with ${code}`))
  // That it has ended is told above.
  shell.stdin.on('error', () => undefined)
  // What is written goes out all the same.
  shell.unref()
  const say = (...assignments: readonly string[]): void =>
    void shell.stdin.write(`${assignments.join('\t')}\n`)
  return {
    ready: () => {
      say('READY=1', 'STATUS=Serving')
      if (watchdogUs !== undefined)
        watchdog ??= setInterval(() => say('WATCHDOG=1'), Number(watchdogUs) / 2_000).unref()
    },
    reloading: () => say('RELOADING=1', `MONOTONIC_USEC=${hrtime.bigint() / 1_000n}`),
    stopping: () => say('STOPPING=1', 'STATUS=Finishing what is under way'),
  }
}
