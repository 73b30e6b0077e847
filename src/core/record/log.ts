/** Every log line of the gateway, as a named method: one JSON object per line, without credentials or queries. */
import { pid } from 'node:process'
import { isatty } from 'node:tty'
import type { LogFormat, LogLevel, OutageMode } from '../../config/config.ts'
import type { FileEvent } from '../../state/sqlite/thread.ts'
import type { ConnectionRoom } from '../http/connection-room.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import { accessFields, leftInWords, loggedPath, type RequestTimes } from './access-record.ts'
import { refusalKinds, type RefusalCode } from '../rules/refusals.ts'
import type { BackendFailure } from '../rules/backend-failure.ts'
import { createLineBudget, createTally, type LineBudget } from './line-budget.ts'
import { DescriptorDestination } from './log-destination.ts'
import { createReadableText } from './readable-text.ts'
import { describeError, text } from './safe-text.ts'

export type Log = ReturnType<typeof createLog>

export interface SupervisionLine {
  readonly level: 'error' | 'warn' | 'info'
  readonly event: string
  readonly worker?: number | undefined
  readonly [field: string]: string | number | undefined
}

export interface AuditLine {
  /** The client address, or the beginning of the token's digest. */
  readonly who: string
  readonly action: string
  readonly [detail: string]: unknown
}

export interface LogStyle {
  readonly level: LogLevel
  readonly access: boolean
  /** auto, the default: text where the destination is a terminal. */
  readonly format?: LogFormat
}

export interface LogOptions extends LogStyle {
  /** A file descriptor, or something else that takes lines. Default 2, as stdout is for the output of commands. */
  readonly destination?: number | Pick<DescriptorDestination, keyof DescriptorDestination>
  /** Number of this worker, written on each of its lines. */
  readonly worker?: number | undefined
  /** Other processes write lines to the same destination. */
  readonly isShared?: boolean
}

type LineLevel = 'fatal' | 'error' | 'warn' | 'info'

type Say = (level: LineLevel, event: string, fields?: object) => void

export function createLog(options: LogOptions) {
  const writer = createLineWriter(options)
  const { out } = writer
  const budgetOf = (requests: string): LineBudget =>
    createLineBudget((lines) => say('warn', 'linesSuppressed', { requests, lines }))
  const anonymous = budgetOf('without a credential')
  const tallies = createTallies(say)
  const overQuota = budgetOf('over quota')

  /** Writes a rare line and flushes it at once, without waiting for a full batch. */
  function say(...[level, event, fields]: Parameters<Say>): void {
    if (!writer.isEnabled(level)) return
    writer.write(level, { event, ...fields })
    out.flush()
  }

  return {
    /** Applies to lines from now on. */
    use: writer.use,
    ...requestLines(writer, { anonymous, overQuota }),
    ...lifecycleLines(say),
    ...configLines(say),
    ...storeLines(say),
    ...faultLines(say),
    ...lastLines(writer),
    auditRefused: tallies.intruders.add,
    connectionRefused: tallies.connections.add,
    noticeDropped: tallies.notices.add,
    handshakeFailed: tallies.handshakes.add,
    /** Passes on whole lines of a worker, line ends included; what is no log line becomes one. */
    relay(lines: string): void {
      writer.pass(lines.replace(foreignLine, ''))
      out.flush()
      for (const [line] of lines.matchAll(foreignLine))
        say('warn', 'workerOutput', { message: text(line.trimEnd()) })
    },
    fault: () => out.fault,
    lostLines: () => out.lostLines,
    /** Writes what is pending before it returns. */
    flushSync: () => out.flushSync(),
    /** Writes what is pending; resolves within about a second even if nobody reads. */
    close(): Promise<void> {
      for (const { settle } of [...Object.values(tallies), anonymous, overQuota]) settle()
      return out.close()
    },
  }
}

type LineWriter = ReturnType<typeof createLineWriter>

const severities = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** Writes lines of the configured levels: one flat JSON object each, or readable text on a terminal. */
function createLineWriter({ destination = 2, worker, isShared = false, ...first }: LogOptions) {
  const isTerminal = typeof destination === 'number' && isatty(destination)
  const timestamp = createTimestamp(worker)
  let lowest = 0
  let readable: ((lines: string) => string) | undefined
  const isEnabled = (level: LineLevel): boolean => severities.indexOf(level) >= lowest
  // Parts, as one string of them would be made twice.
  const shown = (...parts: string[]): string[] =>
    readable === undefined ? parts : [readable(parts.join(''))]
  // JSON.stringify takes a fifth of the time that pino needs for the same line.
  const line = (level: LineLevel, fields: object, nowMs = Date.now()): string[] =>
    shown('{"level":"', level, timestamp(nowMs), JSON.stringify(fields).slice(1), '\n')
  const lineOfLost = (lines: number): string =>
    isEnabled('warn') ? line('warn', { event: 'linesDropped', lines }).join('') : ''
  const out =
    typeof destination === 'number'
      ? new DescriptorDestination(destination, isShared, lineOfLost)
      : destination
  const writer = {
    out,
    style: first as LogStyle,
    use(style: LogStyle): void {
      const { level, format = 'auto' } = style
      writer.style = style
      lowest = severities.indexOf(level)
      const isText = format === 'text' || (format === 'auto' && isTerminal)
      readable = isText ? createReadableText({ colour: isTerminal }) : undefined
    },
    get isText() {
      return readable !== undefined
    },
    isEnabled,
    /** Writes the fields as they are: the caller has cut and escaped all text from outside. */
    write: (...of: Parameters<typeof line>): void => out.write(...line(...of)),
    /** Writes whole lines of JSON, line ends included. */
    pass: (lines: string): void => out.write(...shown(lines)),
  }
  writer.use(first)
  return writer
}

/** Formats what stands between level and fields of a line: time and worker. It does so once per millisecond, as it costs more than the rest of a short line. */
function createTimestamp(worker: number | undefined): (nowMs: number) => string {
  const origin = worker === undefined ? '' : `,"worker":${worker}`
  let lastMs = 0
  let fragment = ''
  return (nowMs) => {
    if (nowMs !== lastMs) {
      lastMs = nowMs
      fragment = `","time":"${new Date(nowMs).toISOString()}"${origin},`
    }
    return fragment
  }
}

/** Events that anyone can cause at will: each gets at most one line a second, with the particulars of the last one. */
const createTallies = (say: Say) => ({
  connections: createTally<{ address: string; reason: string }>((count, last) =>
    say('warn', 'connectionsRefused', { count, ...last }),
  ),
  /** A TLS handshake failed. cause: the code of OpenSSL or Node.js, or why a client certificate is not trusted. */
  handshakes: createTally<{ address: string; reason: string; cause: string }>((count, last) =>
    say('info', 'handshakesFailed', { count, ...last, cause: text(last.cause) }),
  ),
  /** A notice was dropped, as too many wait for the receiver of notify. */
  notices: createTally<{ type: string }>((count, last) =>
    say('warn', 'noticeDropped', { count, ...last }),
  ),
  /** Somebody without permission asked for a change. */
  intruders: createTally<AuditLine>((count, last) =>
    say('warn', 'auditRefused', { count, ...last }),
  ),
})

function requestLines(
  writer: LineWriter,
  { anonymous, overQuota }: Record<'anonymous' | 'overQuota', LineBudget>,
) {
  return {
    /** Writes one line per request, at the level of its refusal, unless access lines are switched off. */
    access(exchange: Exchange, times: RequestTimes): void {
      const { caller } = exchange
      const refusal = exchange.refusal?.code
      const level = refusal === undefined ? 'info' : refusalKinds[refusal].logLevel
      if (!writer.style.access || !writer.isEnabled(level)) return
      // A flood must not fill the disk. The budgets are separate, so that anonymous requests suppress no client's lines, and
      // one key none of another's.
      if (caller === undefined) {
        if (!anonymous.spend()) return
      } else if (isOverQuota(refusal) && !overQuota.spend(caller.keyId)) return
      const fields = accessFields(exchange, times)
      // A program has the limit from its configuration: no line of JSON pays for it.
      const left = writer.isText ? leftInWords(exchange) : undefined
      writer.write(level, left === undefined ? fields : { ...fields, left }, times.nowMs)
    },
    /** backend: undefined where the request reached none. */
    backendFailed(line: BackendFailure & { id: string; backend: string | undefined }): void {
      if (writer.isEnabled('warn'))
        writer.write('warn', { event: 'backendFailed', ...line, cause: text(line.cause) })
    },
    /** The bytes that arrived on a connection were not a request. id: the request id of the answer. */
    clientError(line: { id: string; address: string; code: string; target: string | undefined }) {
      const { code, target } = line
      if (writer.isEnabled('info') && anonymous.spend())
        writer.write('info', {
          event: 'clientError',
          ...line,
          code: text(code),
          target: loggedPath(target),
        })
    },
  }
}

const lifecycleLines = (say: Say) => ({
  listening: (line: { listener: string; host: string; port: number }) =>
    say('info', 'listening', { pid, ...line }),
  /** The limit of open files allows fewer connections than configured. */
  filesAreFew: ({ openFiles, connections, isFar, wanted }: ConnectionRoom & { wanted: number }) =>
    say(isFar ? 'warn' : 'info', 'filesAreFew', {
      openFiles,
      connections,
      message: `raise the limit of open files (ulimit -n, LimitNOFILE) to ${wanted}`,
    }),
  signalIgnored: (line: { signal: string; message: string }) => say('info', 'signalIgnored', line),
  warning: (warning: Error) => say('warn', 'warning', describeError(warning)),
  supervision: ({ level, event, ...line }: SupervisionLine) => say(level, event, line),
  /** The event loop is late. refused: what is refused from now on; 'nothing' when the overload has ended. */
  shedding: (line: { refused: string; lagMs: number }) =>
    say(line.refused === 'nothing' ? 'info' : 'warn', 'shedding', line),
  /** The gateway is not ready from now on, but still takes requests for delayMs. */
  drainDelayed: (line: { delayMs: number }) => say('info', 'drainDelayed', line),
  draining: (line: { inFlight: number; timeoutMs: number }) => say('info', 'draining', line),
  drained: (line: { cutOff: number }) => say('info', 'drained', line),
})

const configLines = (say: Say) => ({
  /** store: on the first line, at the start; blastRadius: on later lines, with a bounded number of names. */
  configTaken: (line: { revision: string } & ({ store: string } | { blastRadius: object })) =>
    say('info', 'configTaken', line),
  /** A new configuration was refused; the one in force, of this revision, stays. */
  reloadRefused: (line: { revision: string; problems: readonly string[] }) =>
    say('error', 'configRefused', line),
  /** A change requested on the admin listener, and its outcome. */
  audit: (line: AuditLine) => say('info', 'audit', line),
  configWarning: ({ problem }: { problem: string }) =>
    say('warn', 'configWarning', { problem: text(problem) }),
})

const storeLines = (say: Say) => ({
  /** server: of Redis; undefined: the store is the supervisor. */
  storeLost: (line: { mode: OutageMode; server: string | undefined; cause: string }) =>
    say('error', 'storeLost', { ...line, cause: text(line.cause) }),
  storeBack: (line: { server: string | undefined; outageMs: number }) =>
    say('info', 'storeBack', line),
  storeWarning: ({ warning }: { warning: string }) =>
    say('warn', 'storeWarning', { warning: text(warning) }),
  /** The store's clock went back, so that minutes are counted anew; each process that notices writes one line. */
  clockWentBack: (line: { bySeconds: number }) => say('warn', 'clockWentBack', line),
  keyBanned: (line: { client: string; key: string; forMs: number; strikes: number }) =>
    say('warn', 'keyBanned', { ...line, client: text(line.client), key: text(line.key) }),
  /** Bans are kept in memory alone from now on, until banStoreBack. */
  banStoreLost: () => say('error', 'banStoreLost'),
  banStoreBack: () => say('info', 'banStoreBack'),
  /** store.file was damaged or removed; see FileEvent. */
  storeFile: ({ event, ...line }: FileEvent) => say('error', event, line),
  /** Quota counters can no longer be kept in store.file; they go on in memory, until countersKept. */
  countersNotKept: (error: unknown) => say('error', 'countersNotKept', describeError(error)),
  countersKept: () => say('info', 'countersKept'),
  /** The totals of days cannot be written; they wait in memory, until usageKept. */
  usageNotKept: (error: unknown) => say('error', 'usageNotKept', describeError(error)),
  usageKept: () => say('info', 'usageKept'),
  /** Too much waits, or the gateway ends first: some requests will be missing from the totals of days. */
  usageDropped: () => say('error', 'usageDropped'),
})

const faultLines = (say: Say) => ({
  /** forMs: how long the backend gets no requests; undefined: it still gets them, as it cannot be spared. */
  backendDown: (line: { backend: string; cause: string; forMs: number | undefined }) =>
    say('error', 'backendDown', { ...line, cause: text(line.cause) }),
  backendUp: (line: { backend: string; downMs: number }) => say('info', 'backendUp', line),
  backendSurplus: (line: { backend: string }) => say('error', 'backendSurplus', line),
  /** Spans do not reach the collector and are dropped, until collectorBack. */
  collectorLost: (line: { collector: string; cause: string }) => say('warn', 'collectorLost', line),
  collectorBack: (line: { collector: string; dropped: number }) =>
    say('info', 'collectorBack', line),
  keySetFailed: ({ cause }: { cause: string }) =>
    say('warn', 'keySetFailed', { cause: text(cause) }),
  /** A request ended in a fault of the gateway itself; the others go on. */
  internalError: ({ id, error }: { id: string; error: unknown }) =>
    say('error', 'internalError', { id, ...describeError(error) }),
  adminFailed: (error: unknown) => say('error', 'adminFailed', describeError(error)),
  /** The receiver of notify accepts nothing; cause: undefined: it accepts again. */
  notifying: ({ cause }: { cause: string | undefined }) =>
    cause === undefined
      ? say('info', 'notifyBack')
      : say('warn', 'notifyFailed', { cause: text(cause) }),
  /** The demo's catalogue service has failed to answer. */
  catalogueFailed: ({ message }: { message: string }) =>
    say('error', 'catalogueFailed', { message: text(message) }),
})

/** Lines that are written before the call returns. A refused configuration and a failed start are logged whatever the level. */
function lastLines(writer: LineWriter) {
  const last: Say = (level, event, fields) => {
    writer.write(level, { event, ...fields })
    writer.out.flushSync()
  }
  return {
    /** problems: for a person to read, with file, line and column. */
    configRefused: (line: { problems: readonly string[] }) => last('error', 'configRefused', line),
    /** The process ends because it cannot start; message: fault and remedy. */
    startFailed: ({ message }: { readonly message: string }) =>
      last('fatal', 'startFailed', { message }),
    crash(error: unknown): void {
      if (writer.isEnabled('fatal')) last('fatal', 'crash', describeError(error))
    },
  }
}

/** Matches a line that is not of this log, such as one of the JavaScript engine about a full heap. */
const foreignLine = /^(?!\{"level").+\n/gm

/** Refusals that a client can cause as often as it likes; under overload, too, the log has to stay short. */
const isOverQuota = (refusal: RefusalCode | undefined): boolean =>
  refusal === 'rate_limit_exceeded' || refusal === 'api_key_banned' || refusal === 'overloaded'
