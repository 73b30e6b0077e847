/** Every line the gateway logs, as a named method: one JSON object per line, without credentials or queries. */
import { pid } from 'node:process'
import type { OutageMode } from '../config/config.ts'
import { accessFields, loggedPath, type AccessRecord, type ExchangeTimes } from './access-record.ts'
import { refusalKinds, type RefusalCode } from '../rules/refusals.ts'
import type { BackendFailureKind } from '../rules/backend-failure.ts'
import { createLineBudget, type LineBudget } from './line-budget.ts'
import {
  createLineWriter,
  type LineLevel,
  type LineWriter,
  type LineWriterOptions,
} from './line-writer.ts'
import { describeError, plainText } from './log-text.ts'

export interface Log {
  /** One line per request, at the level of its refusal; nothing if access lines are switched off. */
  access(exchange: AccessRecord, times: ExchangeTimes): void
  listening(line: { listener: string; host: string; port: number }): void
  configTaken(line: { revision: string; store: string }): void
  /** One of Config.warnings. */
  configWarning(line: { problem: string }): void
  /** `problems` as a person should read them, with file, line and column. Written at any level. */
  configRefused(line: { problems: readonly string[] }): void
  /** The process ends, as it cannot begin; says why and what to do. Written at any level. */
  startFailed(error: { readonly message: string }): void
  /** A signal that does nothing here. */
  signalIgnored(line: { signal: string; message: string }): void
  /** What Node.js warns of. */
  warning(warning: Error): void
  /** The demo's catalogue service has failed to answer. */
  catalogueFailed(line: { message: string }): void
  /** server: of Redis; without it the supervisor. */
  storeLost(line: { mode: OutageMode; server: string | undefined; cause: string }): void
  storeBack(line: { server: string | undefined; outageMs: number }): void
  keyBanned(line: { client: string; key: string; forMs: number; strikes: number }): void
  /** Bans are kept in memory alone from here on, until banStoreBack. */
  banStoreLost(): void
  banStoreBack(): void
  /** A stored ban could not be read and was left out. */
  banMalformed(line: { where: string }): void
  /** store.file could not be read: it was put aside and a new one begun. */
  storeFileSetAside(line: { keptAs: string }): void
  /** Quota counters can no longer be kept in store.file; they go on in memory, until countersKept. */
  countersNotKept(error: unknown): void
  countersKept(): void
  backendFailed(line: { id: string; kind: BackendFailureKind; cause: string }): void
  /** Keys of the token issuer could not be fetched. */
  keySetFailed(line: { cause: string }): void
  /** What arrived on a connection was not a request. */
  clientError(line: { address: string; code: string; target: string | undefined }): void
  /** A request ended in a fault of the gateway itself; the others go on. */
  internalError(line: { id: string; error: unknown }): void
  /** An answer of the admin listener could not be made. */
  adminFailed(error: unknown): void
  /** What a supervisor does with its workers. */
  supervision(line: SupervisionLine): void
  /** Whole lines of a worker, ends included; what is no log line becomes one. */
  relay(lines: string): void
  draining(line: { inFlight: number; timeoutMs: number }): void
  drained(line: { cutOff: number }): void
  /** The process ends over this error: written before the call returns. */
  crash(error: unknown): void
  /** Writes what is pending before it returns. */
  flushSync(): void
  /** Writes what is pending; resolves within about a second even if nobody reads. */
  close(): Promise<void>
}

export interface SupervisionLine {
  readonly level: 'error' | 'warn' | 'info'
  readonly event: string
  readonly worker?: number | undefined
  readonly [field: string]: string | number | undefined
}

export interface LogOptions extends LineWriterOptions {
  readonly access: boolean
  /** Lines a second for requests without a valid credential, so that a flood cannot fill the disk. Default 1000. */
  readonly anonymousLinesPerSecond?: number
  /** The same for requests refused with 429 to clients whose quota is used up or whose key is banned. Default 1000. */
  readonly overQuotaLinesPerSecond?: number
}

type Say = (
  level: LineLevel,
  line: { readonly event: string; readonly [name: string]: unknown },
) => void

export function createLog(options: LogOptions): Log {
  const out = createLineWriter(options, (lines) => say('warn', { event: 'linesDropped', lines }))
  const budgetOf = (requests: string, perSecond = 1000): LineBudget =>
    createLineBudget(perSecond, (lines) =>
      say('warn', { event: 'linesSuppressed', requests, lines }),
    )
  const anonymous = budgetOf('without a credential', options.anonymousLinesPerSecond)
  const overQuota = budgetOf('over quota', options.overQuotaLinesPerSecond)

  /** Lines of which there are few should be seen at once, not when a batch is full. */
  function say(...[level, line]: Parameters<Say>): void {
    if (!out.isEnabled(level)) return
    out.write(level, line)
    out.flush()
  }

  return {
    ...requestLines({ out, anonymous, overQuota, access: options.access }),
    ...lifecycleLines(say),
    ...storeLines(say),
    ...faultLines(say),
    ...lastLines(out),
    relay(lines) {
      out.pass(lines.replace(foreignLine, ''))
      out.flush()
      for (const [line] of lines.matchAll(foreignLine))
        say('warn', { event: 'workerOutput', message: text(line.trimEnd()) })
    },
    flushSync: () => out.flushSync(),
    close() {
      anonymous.settle()
      overQuota.settle()
      return out.close()
    },
  }
}

interface RequestLineParts {
  readonly out: LineWriter
  readonly anonymous: LineBudget
  readonly overQuota: LineBudget
  readonly access: boolean
}

function requestLines({ out, anonymous, overQuota, access }: RequestLineParts) {
  const accessLevels = { debug: false, info: false, warn: false }
  for (const level of ['debug', 'info', 'warn'] as const)
    accessLevels[level] = access && out.isEnabled(level)
  return {
    access(exchange, times) {
      const { refusal, caller } = exchange
      const level = refusal === undefined ? 'info' : refusalKinds[refusal].logLevel
      if (!accessLevels[level]) return
      // What anyone can cause at will must not fill the disk: apart, so that anonymous hide no client's lines.
      if (caller === undefined ? !anonymous.spend() : isOverQuota(refusal) && !overQuota.spend())
        return
      out.write(level, accessFields(exchange, times))
    },
    backendFailed(line) {
      if (out.isEnabled('warn'))
        out.write('warn', { event: 'backendFailed', ...line, cause: text(line.cause) })
    },
    clientError({ address, code, target }) {
      if (out.isEnabled('info') && anonymous.spend())
        out.write('info', {
          event: 'clientError',
          address,
          code: text(code),
          target: loggedPath(target),
        })
    },
  } satisfies Partial<Log>
}

const lifecycleLines = (say: Say) =>
  ({
    listening: (line) => say('info', { event: 'listening', pid, ...line }),
    configTaken: (line) => say('info', { event: 'configTaken', ...line }),
    configWarning: ({ problem }) => say('warn', { event: 'configWarning', problem: text(problem) }),
    signalIgnored: (line) => say('info', { event: 'signalIgnored', ...line }),
    warning: (warning) => say('warn', { event: 'warning', ...describeError(warning) }),
    supervision: ({ level, ...line }) => say(level, line),
    draining: (line) => say('info', { event: 'draining', ...line }),
    drained: (line) => say('info', { event: 'drained', ...line }),
  }) satisfies Partial<Log>

const storeLines = (say: Say) =>
  ({
    storeLost: (line) => say('error', { event: 'storeLost', ...line, cause: text(line.cause) }),
    storeBack: (line) => say('info', { event: 'storeBack', ...line }),
    keyBanned: ({ client, key, ...line }) =>
      say('warn', { event: 'keyBanned', client: text(client), key: text(key), ...line }),
    banStoreLost: () => say('error', { event: 'banStoreLost' }),
    banStoreBack: () => say('info', { event: 'banStoreBack' }),
    banMalformed: ({ where }) => say('warn', { event: 'banMalformed', where: text(where) }),
    storeFileSetAside: (line) => say('error', { event: 'storeFileSetAside', ...line }),
    countersNotKept: (error) => say('error', { event: 'countersNotKept', ...describeError(error) }),
    countersKept: () => say('info', { event: 'countersKept' }),
  }) satisfies Partial<Log>

const faultLines = (say: Say) =>
  ({
    keySetFailed: (line) => say('warn', { event: 'keySetFailed', cause: text(line.cause) }),
    internalError: ({ id, error }) =>
      say('error', { event: 'internalError', id, ...describeError(error) }),
    adminFailed: (error) => say('error', { event: 'adminFailed', ...describeError(error) }),
    catalogueFailed: ({ message }) =>
      say('error', { event: 'catalogueFailed', message: text(message) }),
  }) satisfies Partial<Log>

/** Written before the call returns. Why nothing starts is said even where nothing else is to be. */
function lastLines(out: LineWriter) {
  const last = (level: LineLevel, line: object): void => {
    out.write(level, line)
    out.flushSync()
  }
  return {
    configRefused: (line) => last('error', { event: 'configRefused', ...line }),
    startFailed: ({ message }) => last('fatal', { event: 'startFailed', message }),
    crash(error) {
      if (out.isEnabled('fatal')) last('fatal', { event: 'crash', ...describeError(error) })
    },
  } satisfies Partial<Log>
}

/** A word of the engine's own, such as of a heap that is full, or of a library that does not ask. */
const foreignLine = /^(?!\{"level").+\n/gm

const isOverQuota = (refusal: RefusalCode | undefined): boolean =>
  refusal === 'rate_limit_exceeded' || refusal === 'api_key_banned'
const text = (value: string): string => plainText(value, 500)
