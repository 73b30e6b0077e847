/** One flat JSON object per line, of the levels that are wanted; on a terminal the same as readable text. */
import { isatty } from 'node:tty'
import type { LogFormat, LogLevel } from '../../config/config.ts'
import { DescriptorDestination } from './log-destination.ts'
import { createReadableText } from './readable-text.ts'

export type LineLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug'

export type LineWriter = ReturnType<typeof createLineWriter>

export interface LineStyle {
  readonly level: LogLevel
  /** auto, the default: text where the destination is a terminal. */
  readonly format?: LogFormat
}

export interface LineWriterOptions extends LineStyle {
  /** A file descriptor, or something that takes whole lines. Default 2: stdout is for what commands print. */
  readonly destination?: number | { write(line: string): unknown }
  /** Number of this worker, on each of its lines. Its supervisor makes them readable, if anyone is to read them. */
  readonly worker?: number | undefined
}

/** Writes a line at once. */
export type Say = (
  level: LineLevel,
  line: { readonly event: string; readonly [name: string]: unknown },
) => void

const severities = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** `dropped` is told how many lines found no room, once there is room again. */
export function createLineWriter(
  { destination = 2, worker, ...first }: LineWriterOptions,
  dropped: (lines: number) => void,
) {
  const target =
    typeof destination === 'number'
      ? new DescriptorDestination(destination, dropped)
      : { ...nothingPending, write: (lines: string) => void destination.write(lines) }
  const isTerminal = typeof destination === 'number' && isatty(destination)
  const timestamp = createTimestamp(worker)
  let lowest = 0
  let text: ((lines: string) => string) | undefined
  let readable = text
  const use = ({ level, format = 'auto' }: LineStyle): void => {
    lowest = severities.indexOf(level)
    const isText = worker === undefined && (format === 'text' || (format === 'auto' && isTerminal))
    readable = isText ? (text ??= createReadableText({ colour: isTerminal })) : undefined
  }
  use(first)
  const pass = (lines: string): void => target.write(readable?.(lines) ?? lines)
  return {
    /** For lines from here on. */
    use,
    isEnabled: (of: LineLevel): boolean => severities.indexOf(of) >= lowest,
    /** Fields are written as they are: whatever comes from outside is cut and escaped before. */
    write: (of: LineLevel, fields: object, nowMs = Date.now()): void =>
      // JSON.stringify takes a fifth of the time that pino needs for the same line.
      pass(`{"level":"${of}"${timestamp(nowMs)},${JSON.stringify(fields).slice(1)}\n`),
    /** Whole lines of JSON, ends included. */
    pass,
    /** Why lines are being lost at the moment; undefined while they are written. */
    get fault(): string | undefined {
      return target.fault
    },
    get lostLines(): number {
      return target.lostLines
    },
    flush: () => target.flush(),
    flushSync: () => target.flushSync(),
    close: () => target.close(),
  }
}

/** The time, and the worker, as a fragment of the line; formatted once per millisecond, as that costs more than a short line. */
function createTimestamp(worker: number | undefined): (nowMs: number) => string {
  const origin = worker === undefined ? '' : `,"worker":${worker}`
  let lastMs = 0
  let fragment = ''
  return (nowMs) => {
    if (nowMs !== lastMs) {
      lastMs = nowMs
      fragment = `,"time":"${new Date(nowMs).toISOString()}"${origin}`
    }
    return fragment
  }
}

/** A destination of the caller's own, such as a test's array, looks after its own errors and keeps nothing back. */
const nothingPending = {
  fault: undefined,
  lostLines: 0,
  flush: () => {},
  flushSync: () => {},
  close: () => Promise.resolve(),
}
