/**
 * Reports the state of this process to systemd (sd_notify(3)). Node.js has no datagrams between processes of one machine, but
 * systemd has a command for it: a small shell runs it for each line it gets, as forking this process would hold up requests.
 */
import { spawn } from 'node:child_process'
import { hrtime } from 'node:process'
import type { Environment } from '../config/environment.ts'

export interface ServiceManager {
  /** Reports readiness, and after that, as often as systemd asks for, that the event loop turns. */
  ready(): void
  /** Reports a reload; ready() reports its end. */
  reloading(): void
  stopping(): void
}

/** A line has up to two assignments with a tab between them. */
const SCRIPT = `while IFS='\t' read -r one two; do
  systemd-notify "$one" \${two:+"$two"} || exit
done`

const NOBODY: ServiceManager = { ready() {}, reloading() {}, stopping() {} }

/** onFault: called once if systemd cannot be reached. */
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
  // The exit handler above reports its end.
  shell.stdin.on('error', () => undefined)
  // Lines that were written go out all the same.
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
