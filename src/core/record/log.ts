/** Every line the gateway logs, as a named method: one JSON object per line, without credentials or queries. */
import { pid } from 'node:process'
import type { ConnectionRoom } from '../http/connection-limits.ts'
import { accessFields, loggedPath, type AccessRecord, type ExchangeTimes } from './access-record.ts'
import { refusalKinds, type RefusalCode } from '../rules/refusals.ts'
import type { BackendFailure } from '../rules/backend-failure.ts'
import { createLineBudget, createTally, type LineBudget } from './line-budget.ts'
import { configLines, type AuditLine } from './config-lines.ts'
import {
  createLineWriter,
  type LineLevel,
  type LineStyle,
  type LineWriter,
  type LineWriterOptions,
  type Say,
} from './line-writer.ts'
import { describeError, text } from './log-text.ts'
import { storeLines } from './store-lines.ts'

export type Log = ReturnType<typeof createLog>

export interface SupervisionLine {
  readonly level: 'error' | 'warn' | 'info'
  readonly event: string
  readonly worker?: number | undefined
  readonly [field: string]: string | number | undefined
}

export interface LogStyle extends LineStyle {
  readonly access: boolean
}

export interface LogOptions extends LogStyle, LineWriterOptions {
  /** Lines a second for requests without a valid credential, so that a flood cannot fill the disk. Default 1000. */
  readonly anonymousLinesPerSecond?: number
  /** The same for requests refused with 429 to clients whose quota is used up or whose key is banned. Default 1000. */
  readonly overQuotaLinesPerSecond?: number
}

export function createLog(options: LogOptions) {
  const out = createLineWriter(options, (lines) => say('warn', { event: 'linesDropped', lines }))
  const budgetOf = (requests: string, perSecond = 1000): LineBudget =>
    createLineBudget(perSecond, (lines) =>
      say('warn', { event: 'linesSuppressed', requests, lines }),
    )
  const anonymous = budgetOf('without a credential', options.anonymousLinesPerSecond)
  const tallies = createTallies(say)
  const overQuota = budgetOf('over quota', options.overQuotaLinesPerSecond)

  /** Lines of which there are few should be seen at once, not when a batch is full. */
  function say(...[level, line]: Parameters<Say>): void {
    if (!out.isEnabled(level)) return
    out.write(level, line)
    out.flush()
  }

  const style = { access: options.access }
  return {
    /** For lines from here on. */
    use({ access, ...lines }: LogStyle): void {
      style.access = access
      out.use(lines)
    },
    ...requestLines(style, out, { anonymous, overQuota }),
    ...lifecycleLines(say),
    ...configLines(say),
    ...storeLines(say),
    ...faultLines(say),
    ...lastLines(out),
    /** A change was asked for by somebody who may not: one line a second at most, with the last one's particulars. */
    auditRefused: tallies.intruders.add,
    /** A connection was closed at once, for this bound; one line a second at most, with the last one's address. */
    connectionRefused: tallies.connections.add,
    /** Too many wait for the receiver of notify: one line a second at most, with the last one's type. */
    noticeDropped: tallies.notices.add,
    /** As connectionRefused, of TLS; cause: the code of OpenSSL or Node.js, or why a client certificate is not believed. */
    handshakeFailed: tallies.handshakes.add,
    /** Whole lines of a worker, ends included; what is no log line becomes one. */
    relay(lines: string): void {
      out.pass(lines.replace(foreignLine, ''))
      out.flush()
      for (const [line] of lines.matchAll(foreignLine))
        say('warn', { event: 'workerOutput', message: text(line.trimEnd()) })
    },
    ...lossesOf(out),
    /** Writes what is pending before it returns. */
    flushSync: () => out.flushSync(),
    /** Writes what is pending; resolves within about a second even if nobody reads. */
    close(): Promise<void> {
      for (const tally of Object.values(tallies)) tally.settle()
      anonymous.settle()
      overQuota.settle()
      return out.close()
    },
  }
}

/** Of what anyone can cause at will, each at most one line a second. */
const createTallies = (say: Say) => ({
  connections: createTally<{ address: string; reason: string }>((count, last) =>
    say('warn', { event: 'connectionsRefused', count, ...last }),
  ),
  handshakes: createTally<{ address: string; reason: string; cause: string }>((count, last) =>
    say('info', { event: 'handshakesFailed', count, ...last, cause: text(last.cause) }),
  ),
  notices: createTally<{ type: string }>((count, last) =>
    say('warn', { event: 'noticeDropped', count, ...last }),
  ),
  intruders: createTally<AuditLine>((count, last) =>
    say('warn', { event: 'auditRefused', count, ...last }),
  ),
})

const lossesOf = (out: LineWriter) => ({
  /** Why lines are being lost at the moment, and what mends it; undefined while they are written. */
  fault: (): string | undefined => out.fault,
  /** Lines lost since the start. */
  lostLines: (): number => out.lostLines,
})

function requestLines(
  style: Pick<LogStyle, 'access'>,
  out: LineWriter,
  { anonymous, overQuota }: Record<'anonymous' | 'overQuota', LineBudget>,
) {
  return {
    /** One line per request, at the level of its refusal; nothing if access lines are switched off. */
    access(exchange: AccessRecord, times: Omit<ExchangeTimes, 'nowMs'>): void {
      const { refusal, caller } = exchange
      const level = refusal === undefined ? 'info' : refusalKinds[refusal].logLevel
      if (!style.access || !out.isEnabled(level)) return
      // What anyone can cause at will must not fill the disk: apart, so that anonymous hide no client's lines, nor one key another's.
      if (caller === undefined) {
        if (!anonymous.spend()) return
      } else if (isOverQuota(refusal) && !overQuota.spend(caller.keyId)) return
      const nowMs = Date.now()
      out.write(level, accessFields(exchange, { ...times, nowMs }), nowMs)
    },
    /** backend: undefined: it never got as far as one. */
    backendFailed(line: BackendFailure & { id: string; backend: string | undefined }): void {
      if (out.isEnabled('warn'))
        out.write('warn', { event: 'backendFailed', ...line, cause: text(line.cause) })
    },
    /** What arrived on a connection was not a request; id: of the answer. */
    clientError(line: Pick<AccessRecord, 'id' | 'target'> & { address: string; code: string }) {
      const { code, target } = line
      if (out.isEnabled('info') && anonymous.spend())
        out.write('info', {
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
    say('info', { event: 'listening', pid, ...line }),
  /** The process may open so few files that it takes fewer connections than it was configured for. */
  filesAreFew: ({ openFiles, connections, isFar, wanted }: ConnectionRoom & { wanted: number }) =>
    say(isFar ? 'warn' : 'info', {
      event: 'filesAreFew',
      openFiles,
      connections,
      message: `raise the limit of open files (ulimit -n, LimitNOFILE) to ${wanted}`,
    }),
  /** A signal that does nothing here. */
  signalIgnored: (line: { signal: string; message: string }) =>
    say('info', { event: 'signalIgnored', ...line }),
  /** What Node.js warns of. */
  warning: (warning: Error) => say('warn', { event: 'warning', ...describeError(warning) }),
  /** What a supervisor does with its workers. */
  supervision: ({ level, ...line }: SupervisionLine) => say(level, line),
  /** The event loop is late: what is refused for it from here on; nothing at the end. */
  shedding: (line: { refused: string; lagMs: number }) =>
    say(line.refused === 'nothing' ? 'info' : 'warn', { event: 'shedding', ...line }),
  /** Not ready from here on; requests are still taken for so long. */
  drainDelayed: (line: { delayMs: number }) => say('info', { event: 'drainDelayed', ...line }),
  draining: (line: { inFlight: number; timeoutMs: number }) =>
    say('info', { event: 'draining', ...line }),
  drained: (line: { cutOff: number }) => say('info', { event: 'drained', ...line }),
})

const faultLines = (say: Say) => ({
  /** forMs: it gets no requests for so long; undefined: it cannot be spared. */
  backendDown: (line: { backend: string; cause: string; forMs: number | undefined }) =>
    say('error', { event: 'backendDown', ...line, cause: text(line.cause) }),
  backendUp: (line: { backend: string; downMs: number }) =>
    say('info', { event: 'backendUp', ...line }),
  backendSurplus: (line: { backend: string }) => say('error', { event: 'backendSurplus', ...line }),
  /** Spans do not reach it and are dropped, until collectorBack. */
  collectorLost: (line: { collector: string; cause: string }) =>
    say('warn', { event: 'collectorLost', ...line }),
  collectorBack: (line: { collector: string; dropped: number }) =>
    say('info', { event: 'collectorBack', ...line }),
  /** Keys of the token issuer could not be fetched. */
  keySetFailed: ({ cause }: { cause: string }) =>
    say('warn', { event: 'keySetFailed', cause: text(cause) }),
  /** A request ended in a fault of the gateway itself; the others go on. */
  internalError: ({ id, error }: { id: string; error: unknown }) =>
    say('error', { event: 'internalError', id, ...describeError(error) }),
  /** An answer of the admin listener could not be made. */
  adminFailed: (error: unknown) => say('error', { event: 'adminFailed', ...describeError(error) }),
  /** The receiver of notify takes nothing; cause: undefined: it does again. */
  notifying: ({ cause }: { cause: string | undefined }) =>
    cause === undefined
      ? say('info', { event: 'notifyBack' })
      : say('warn', { event: 'notifyFailed', cause: text(cause) }),
  /** The demo's catalogue service has failed to answer. */
  catalogueFailed: ({ message }: { message: string }) =>
    say('error', { event: 'catalogueFailed', message: text(message) }),
})

/** Written before the call returns. Why nothing starts is said even where nothing else is to be. */
function lastLines(out: LineWriter) {
  const last = (level: LineLevel, line: object): void => {
    out.write(level, line)
    out.flushSync()
  }
  return {
    /** `problems` as a person should read them, with file, line and column. */
    configRefused: (line: { problems: readonly string[] }) =>
      last('error', { event: 'configRefused', ...line }),
    /** The process ends, as it cannot begin; says why and what to do. */
    startFailed: ({ message }: { readonly message: string }) =>
      last('fatal', { event: 'startFailed', message }),
    /** The process ends over this error. */
    crash(error: unknown): void {
      if (out.isEnabled('fatal')) last('fatal', { event: 'crash', ...describeError(error) })
    },
  }
}

/** A word of the engine's own, such as of a heap that is full, or of a library that does not ask. */
const foreignLine = /^(?!\{"level").+\n/gm

/** Of which a client can cause as many as it likes; overloaded is the time for anything but long logs. */
const isOverQuota = (refusal: RefusalCode | undefined): boolean =>
  refusal === 'rate_limit_exceeded' || refusal === 'api_key_banned' || refusal === 'overloaded'
