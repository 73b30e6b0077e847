/**
 * Decides which requests are traced; and the trace of one request: its ids, and its spans by OpenTelemetry's conventions for
 * HTTP. Spans hold nothing that could be secret: no query, no header, no path that matches no route.
 */
import { randomFillSync } from 'node:crypto'
import type { Config } from '../../config/config.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import type { BackendFailure } from '../rules/backend-failure.ts'
import { fieldOf } from '../rules/field-names.ts'
import {
  RANDOM,
  readTraceParent,
  readTraceState,
  SAMPLED,
  withTraceContext,
  writeTraceParent,
  type TraceParent,
} from '../rules/trace-context.ts'

type Telemetry = NonNullable<Config['telemetry']>

/** Sends the spans of finished requests; the first is the parent of the others. */
export interface SpanSink {
  add(trace: Trace, spans: readonly Span[]): void
  close(): Promise<void>
}

export class Tracing {
  readonly #loadSinks: () => Promise<(collector: string) => SpanSink>
  #sinkFor: ((collector: string) => SpanSink) | undefined
  #telemetry: Telemetry | undefined
  #sink: SpanSink | undefined

  /** loadSinks: loads what sends to a collector, which is given by its URL; called where `telemetry` is configured. */
  constructor(loadSinks: () => Promise<(collector: string) => SpanSink>) {
    this.#loadSinks = loadSinks
  }

  /** Loads what a configuration with `telemetry` needs; must be awaited before use(). */
  async load(telemetry: Telemetry | undefined): Promise<void> {
    if (telemetry !== undefined) this.#sinkFor ??= await this.#loadSinks()
  }

  /** Applies from now on; requests under way are reported to the new collector. */
  use(telemetry: Telemetry | undefined): void {
    const before = this.#telemetry
    this.#telemetry = telemetry
    if (before?.otlp === telemetry?.otlp) return
    void this.#sink?.close()
    this.#sink = telemetry && this.#sinkFor?.(telemetry.otlp)
  }

  get isOn(): boolean {
    return this.#sink !== undefined
  }

  /**
   * The trace id of any client is kept, so that its own trace is found in our log. Only a trusted proxy may say whether its
   * request is recorded: else anybody could have everything traced. fields: flat; undefined where nothing of the request can be
   * trusted.
   */
  begin(fields: readonly string[] | undefined, isTrusted: boolean): Trace {
    const parent = fields && readTraceParent(fieldOf(fields, 'traceparent') ?? '')
    const state = parent && readTraceState(fieldOf(fields, 'tracestate') ?? '')
    const isDrawn =
      parent !== undefined && isTrusted
        ? (parent.flags & SAMPLED) !== 0
        : Math.random() < (this.#telemetry?.sample ?? 0)
    return new Trace(parent, state, isDrawn)
  }

  ended(exchange: Exchange, trace: Trace, endedMs: number): void {
    if (trace.isSampled) this.#sink?.add(trace, trace.spans(exchange, endedMs))
  }

  async close(): Promise<void> {
    await this.#sink?.close()
  }
}

/** Times are those of performance.now(). */
export interface Span {
  readonly name: string
  readonly spanId: string
  readonly startedMs: number
  /** undefined while it lasts. */
  endedMs?: number
  readonly attributes: Record<string, string | number | undefined>
  /** The cause of its failure; undefined: it has not failed. */
  fault?: string | undefined
}

/** Other methods share one name: clients can make up any number of them. */
const methods: ReadonlySet<string | undefined> = new Set(
  'GET HEAD POST PUT PATCH DELETE OPTIONS CONNECT TRACE'.split(' '),
)
const NO_SPANS: Span[] = []

export class Trace implements TraceParent {
  readonly traceId: string
  readonly spanId = newId(8)
  readonly flags: number
  /** The caller's span; undefined: the trace begins here. */
  readonly parent: TraceParent | undefined
  /** The caller's tracestate, passed on. */
  readonly state: string | undefined
  /** All spans but the request's own. */
  #spans = NO_SPANS
  /** The fields of the request to the backend. */
  #fields: string[] = []
  /** Where the value of traceparent stands in them; others may be added behind it. */
  #parentAt = 0

  constructor(parent: TraceParent | undefined, state: string | undefined, isSampled: boolean) {
    this.traceId = parent?.traceId ?? newId(16)
    this.flags = ((parent?.flags ?? RANDOM) & RANDOM) | (isSampled ? SAMPLED : 0)
    this.parent = parent
    this.state = state
  }

  /** Only a sampled trace has spans. */
  get isSampled(): boolean {
    return (this.flags & SAMPLED) !== 0
  }

  /** Returns the fields of the request to a backend, flat, with the context of this trace. */
  along(fields: readonly string[]): string[] {
    this.#fields = withTraceContext(fields, writeTraceParent(this), this.state)
    this.#parentAt = this.#fields.length - 1
    return this.#fields
  }

  /** after: the failure of the attempt before. */
  sentTo(backend: string, method: string | undefined, after: BackendFailure | undefined): void {
    if (!this.isSampled) return
    if (after !== undefined) this.failed(after)
    const resends = this.#spans.filter(({ attributes }) => 'server.address' in attributes).length
    const { hostname, port, protocol } = new URL(backend)
    const { traceId, flags } = this
    const { spanId } = this.#begin(nameOf(method), performance.now(), {
      ...methodOf(method),
      'http.request.resend_count': resends || undefined,
      'server.address': hostname.replace(/^\[|\]$/g, ''),
      'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
      'tollgate.backend': backend,
    })
    this.#fields[this.#parentAt] = writeTraceParent({ traceId, flags, spanId })
  }

  /** Ends the latest attempt, if there is one. */
  failed({ kind, cause }: BackendFailure): void {
    const latest = this.#spans.at(-1)
    if (latest === undefined || latest.endedMs !== undefined) return
    latest.endedMs = performance.now()
    latest.fault = cause
    latest.attributes['error.type'] = kind
  }

  storeAnswered(askedMs: number, outcome: string): void {
    const span = this.#begin('take quota', askedMs, { 'tollgate.quota.outcome': outcome })
    span.endedMs = performance.now()
    if (outcome === 'unavailable') span.fault = 'the quota store is away'
  }

  /** Returns all spans, the request's own first. */
  spans(exchange: Exchange, endedMs: number): Span[] {
    const { refusal, status, backendEndedMs } = exchange
    const latest = this.#spans.at(-1)
    if (latest !== undefined && 'server.address' in latest.attributes) {
      // 499 is the gateway's own status for a client that has left.
      if (refusal === undefined && status > 0 && status !== 499) answered(latest, status, 400)
      latest.endedMs ??= backendEndedMs ?? endedMs
    }
    return [this.#own(exchange, endedMs), ...this.#spans]
  }

  #own(exchange: Exchange, endedMs: number): Span {
    const { request, route, caller, status, refusal, cause, startedMs } = exchange
    const template = route?.template
    const isCutOff = refusal === undefined && cause !== undefined
    const name = nameOf(request.method)
    const span: Span = {
      name: template === undefined ? name : `${name} ${template}`,
      spanId: this.spanId,
      startedMs,
      endedMs,
      fault: isCutOff || status >= 500 ? (cause ?? '') : undefined,
      attributes: {
        ...methodOf(request.method),
        'http.route': template,
        'url.scheme': exchange.proto,
        'url.path': template === undefined ? undefined : exchange.path,
        'network.protocol.version': request.httpVersion === '2.0' ? '2' : request.httpVersion,
        'tollgate.client': caller?.clientId,
        'tollgate.plan': caller?.plan,
        'tollgate.refusal': refusal?.code,
        'tollgate.request.id': exchange.id,
      },
    }
    if (status > 0) answered(span, status, 500)
    if (isCutOff) span.attributes['error.type'] = 'incomplete'
    return span
  }

  #begin(name: string, startedMs: number, attributes: Span['attributes']): Span {
    const span: Span = { name, spanId: newId(8), startedMs, attributes }
    this.#spans = [...this.#spans, span]
    return span
  }
}

/** failsFrom: the lowest status that counts as an error on this side. */
function answered(span: Span, status: number, failsFrom: number): void {
  span.attributes['http.response.status_code'] = status
  if (status < failsFrom) return
  span.fault ??= ''
  span.attributes['error.type'] ??= String(status)
}

const nameOf = (method: string | undefined): string =>
  methods.has(method) ? (method ?? '') : 'HTTP'

const methodOf = (method: string | undefined) => ({
  'http.request.method': methods.has(method) ? method : '_OTHER',
})

/** Random bytes are drawn in blocks, which is cheaper. */
const pool = Buffer.alloc(4_096)
let drawn = pool.length

function newId(bytes: 8 | 16): string {
  if (drawn + bytes > pool.length) {
    randomFillSync(pool)
    drawn = 0
  }
  drawn += bytes
  return pool.toString('hex', drawn - bytes, drawn)
}
