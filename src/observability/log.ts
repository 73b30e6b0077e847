/** Every line the gateway logs, as a named method: one JSON object per line, without credentials or queries. */
import { pid } from 'node:process'
import { pino, type Logger } from 'pino'
import type { LogLevel, OutageMode } from '../config/config.ts'
import type { AccessRecord } from './access-record.ts'
import { refusalKinds, type RefusalCode } from '../rules/refusals.ts'
import type { BackendFailureKind } from '../forwarding/forwarder.ts'
import { createLineBudget, type LineBudget } from './line-budget.ts'
import { createLogDestination, type LogDestination } from './log-destination.ts'
import { plainPath, plainText } from './log-text.ts'

export interface ExchangeTimes {
  readonly totalMs: number
  /** undefined when no backend was asked. */
  readonly backendMs: number | undefined
}

export interface Log {
  /** One line per request, at the level of its refusal; nothing if access lines are switched off. */
  access(exchange: AccessRecord, times: ExchangeTimes): void
  listening(line: { listener: string; host: string; port: number }): void
  configTaken(line: { revision: string }): void
  /** `problems` as a person should read them, with file, line and column. */
  configRefused(line: { problems: readonly string[] }): void
  storeLost(line: { mode: OutageMode; cause: string }): void
  storeBack(line: { outageMs: number }): void
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
  clientError(line: { address: string; code: string }): void
  /** A request ended in a fault of the gateway itself; the others go on. */
  internalError(line: { id: string; error: unknown }): void
  /** An answer of the admin listener could not be made. */
  adminFailed(error: unknown): void
  /** What a supervisor does with its workers. */
  supervision(line: SupervisionLine): void
  /** Whole lines of a worker, ends included. */
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

export interface LogOptions {
  readonly level: LogLevel
  readonly access: boolean
  /** A file descriptor, or something that takes whole lines. Default 2: stdout is for what commands print. */
  readonly destination?: number | { write(line: string): unknown }
  /** Lines a second for requests without a valid credential, so that a flood cannot fill the disk. Default 1000. */
  readonly anonymousLinesPerSecond?: number
  /** The same for requests refused with 429 to clients whose quota is used up or whose key is banned. Default 1000. */
  readonly overQuotaLinesPerSecond?: number
  /** Number of this worker, on each of its lines. */
  readonly worker?: number | undefined
}

type Line = { readonly event: string } & Readonly<Record<string, unknown>>

export function createLog(options: LogOptions): Log {
  const { access, destination = 2 } = options
  const target = typeof destination === 'number' ? onDescriptor(destination) : passOn(destination)
  const timestamp = createTimestamp(options.worker)
  const logger = createLogger({ level: options.level, timestamp, target })
  const accessLevels = { debug: false, info: false, warn: false }
  for (const level of ['debug', 'info', 'warn'] as const)
    accessLevels[level] = access && logger.isLevelEnabled(level)
  const budgetOf = (requests: string, perSecond = 1000): LineBudget =>
    createLineBudget(perSecond, (lines) =>
      logger.warn({ event: 'linesSuppressed', requests, lines }),
    )
  const anonymous = budgetOf('without a credential', options.anonymousLinesPerSecond)
  const overQuota = budgetOf('over quota', options.overQuotaLinesPerSecond)

  function onDescriptor(fd: number): LogDestination {
    return createLogDestination(fd, (lines) => logger.warn({ event: 'linesDropped', lines }))
  }

  /** Lines of which there are few should be seen at once, not when a batch is full. */
  function say(level: 'fatal' | 'error' | 'warn' | 'info', line: Line): void {
    logger[level](line)
    target.flush()
  }

  return {
    access(exchange, times) {
      const { refusal, caller } = exchange
      const level = refusal === undefined ? 'info' : refusalKinds[refusal].logLevel
      if (!accessLevels[level]) return
      // What anyone can cause at will must not fill the disk: apart, so that anonymous hide no client's lines.
      if (caller === undefined ? !anonymous.spend() : isOverQuota(refusal) && !overQuota.spend())
        return
      // The same text as pino would write; one JSON.stringify costs a third of its walk over 20 fields.
      const fields = JSON.stringify(accessFields(exchange, times)).slice(1)
      target.write(`{"level":"${level}"${timestamp()},${fields}\n`)
    },
    listening: (line) => say('info', { event: 'listening', pid, ...line }),
    configTaken: (line) => say('info', { event: 'configTaken', ...line }),
    configRefused: (line) => say('error', { event: 'configRefused', ...line }),
    storeLost: (line) => say('error', { event: 'storeLost', ...line, cause: text(line.cause) }),
    storeBack: (line) => say('info', { event: 'storeBack', ...line }),
    keyBanned: ({ client, key, ...line }) =>
      say('warn', { event: 'keyBanned', client: text(client), key: text(key), ...line }),
    banStoreLost: () => say('error', { event: 'banStoreLost' }),
    banStoreBack: () => say('info', { event: 'banStoreBack' }),
    banMalformed: ({ where }) => say('warn', { event: 'banMalformed', where: text(where) }),
    storeFileSetAside: (line) => say('error', { event: 'storeFileSetAside', ...line }),
    countersNotKept: (error) => say('error', { event: 'countersNotKept', ...describe(error) }),
    countersKept: () => say('info', { event: 'countersKept' }),
    backendFailed: (line) =>
      logger.warn({ event: 'backendFailed', ...line, cause: text(line.cause) }),
    keySetFailed: (line) => say('warn', { event: 'keySetFailed', cause: text(line.cause) }),
    clientError({ address, code }) {
      if (anonymous.spend()) logger.info({ event: 'clientError', address, code: text(code) })
    },
    internalError: ({ id, error }) =>
      say('error', { event: 'internalError', id, ...describe(error) }),
    adminFailed: (error) => say('error', { event: 'adminFailed', ...describe(error) }),
    supervision: ({ level, ...line }) => say(level, line),
    relay(lines) {
      target.write(lines)
      target.flush()
    },
    draining: (line) => say('info', { event: 'draining', ...line }),
    drained: (line) => say('info', { event: 'drained', ...line }),
    crash(error) {
      logger.fatal({ event: 'crash', ...describe(error) })
      target.flushSync()
    },
    flushSync: () => target.flushSync(),
    close() {
      anonymous.settle()
      overQuota.settle()
      return target.close()
    },
  }
}

interface LoggerParts {
  readonly level: LogLevel
  readonly timestamp: () => string
  readonly target: LogDestination
}

const createLogger = ({ level, timestamp, target }: LoggerParts): Logger =>
  pino(
    { level, base: null, timestamp, formatters: { level: (label) => ({ level: label }) } },
    target,
  )

/** The time, and the worker, as a fragment of the line; formatted once per millisecond, as that costs more than a short line. */
function createTimestamp(worker?: number): () => string {
  const origin = worker === undefined ? '' : `,"worker":${worker}`
  let lastMs = 0
  let fragment = ''
  return () => {
    const nowMs = Date.now()
    if (nowMs !== lastMs) {
      lastMs = nowMs
      fragment = `,"time":"${new Date(nowMs).toISOString()}"${origin}`
    }
    return fragment
  }
}

const isOverQuota = (refusal: RefusalCode | undefined): boolean =>
  refusal === 'rate_limit_exceeded' || refusal === 'api_key_banned'
const text = (value: string): string => plainText(value, 500)
const micros = (ms: number): number => Math.round(ms * 1000) / 1000

function accessFields(exchange: AccessRecord, { totalMs, backendMs }: ExchangeTimes) {
  const { caller, path, quota } = exchange
  return {
    event: 'access',
    id: plainText(exchange.id, 200),
    client: caller && plainText(caller.clientId, 200),
    key: caller && plainText(caller.keyId, 200),
    plan: caller?.plan,
    route: exchange.route?.name,
    method: plainText(exchange.request.method ?? '', 32),
    // A query is left out, as it may carry secrets.
    path: path === undefined ? undefined : plainPath(path, 500),
    status: exchange.status,
    gatewayMs: micros(totalMs - (backendMs ?? 0)),
    backendMs: backendMs === undefined ? undefined : micros(backendMs),
    totalMs: micros(totalMs),
    requestBytes: exchange.bodyBytes,
    responseBytes: exchange.responseBytes,
    address: exchange.clientAddress,
    minuteLeft: quota?.minute.remaining,
    dayLeft: quota?.day.remaining,
    refusal: exchange.refusal,
    cause: exchange.cause === undefined ? undefined : plainText(exchange.cause, 200),
    degraded: exchange.degraded ? true : undefined,
  }
}

/** Only these fields: libraries hang commands and their arguments on errors, and those may hold credentials. */
function describe(error: unknown): { error: string; code?: string; stack?: string } {
  if (!(error instanceof Error)) return { error: text(String(error)) }
  const { code } = error as NodeJS.ErrnoException
  return {
    error: text(`${error.name}: ${error.message}`),
    ...(typeof code === 'string' && { code }),
    ...(error.stack !== undefined && { stack: error.stack.slice(0, 4_000) }),
  }
}

/** A destination of the caller's own, such as a test's array; it looks after its own errors. */
const passOn = (destination: { write(line: string): unknown }): LogDestination => ({
  write: (line) => void destination.write(line),
  flush: () => {},
  flushSync: () => {},
  close: () => Promise.resolve(),
})
