/** A collector of OpenTelemetry: a real HTTP server that takes OTLP/HTTP in protobuf and keeps the spans. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import protobuf from 'protobufjs'
import { listening } from './listening.ts'

/** Of the messages of OTLP (opentelemetry.proto) the fields that tests look at; what encodes them is the exporter of OpenTelemetry. */
const schema = `
syntax = "proto3";
message ExportTraceServiceRequest { repeated ResourceSpans resource_spans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message ScopeSpans { InstrumentationScope scope = 1; repeated Span spans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message InstrumentationScope { string name = 1; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
enum SpanKind { SPAN_KIND_UNSPECIFIED = 0; SPAN_KIND_INTERNAL = 1; SPAN_KIND_SERVER = 2; SPAN_KIND_CLIENT = 3; }
enum StatusCode { STATUS_CODE_UNSET = 0; STATUS_CODE_OK = 1; STATUS_CODE_ERROR = 2; }
message Status { string message = 2; StatusCode code = 3; }
message Span {
  bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4; string name = 5;
  SpanKind kind = 6; fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8;
  repeated KeyValue attributes = 9; Status status = 15; fixed32 flags = 16;
}
`
const requestType = protobuf.parse(schema).root.lookupType('ExportTraceServiceRequest')

type Value = string | number | boolean
type Attributes = Readonly<Record<string, Value>>

export type CollectedSpan = ReturnType<typeof readSpans>[number]

/** It ends with the file. */
export async function startCollector() {
  const spans: CollectedSpan[] = []
  const problems: string[] = []
  let requests = 0
  const answer = (request: IncomingMessage, response: ServerResponse, body: Buffer): void => {
    requests++
    if (collector.mode === 'hang') return
    if (collector.mode !== undefined) return void response.writeHead(collector.mode).end()
    const { method, url, headers } = request
    if (`${method} ${url} ${headers['content-type']}` !== 'POST /v1/traces application/x-protobuf')
      problems.push(`asked with ${method} ${url} ${headers['content-type']}`)
    spans.push(...readSpans(body, problems))
    response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end()
  }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => answer(request, response, Buffer.concat(chunks)))
  })
  const collector = {
    url: `http://127.0.0.1:${await listening(server)}`,
    spans: spans as readonly CollectedSpan[],
    /** What was not as the specification wants it; a test expects []. */
    problems: problems as readonly string[],
    /** Requests so far, answered or not. */
    get requests(): number {
      return requests
    },
    /** Answers every request with it, or not at all; undefined: as it should. */
    mode: undefined as number | 'hang' | undefined,
  }
  return collector
}

interface KeyValue {
  readonly key: string
  readonly value: Readonly<Record<string, Value>>
}
interface Read {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly KeyValue[] }
    readonly scopeSpans: readonly {
      readonly scope: { readonly name: string }
      readonly spans: readonly ReadSpan[]
    }[]
  }[]
}
interface ReadSpan {
  readonly traceId: Buffer
  readonly spanId: Buffer
  readonly parentSpanId: Buffer
  readonly traceState: string
  readonly flags: number
  readonly name: string
  readonly kind: string
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly KeyValue[]
  readonly status?: { readonly code: string; readonly message: string }
}

function readSpans(body: Buffer, problems: string[]) {
  const read = requestType.toObject(requestType.decode(body), {
    longs: String,
    enums: String,
    arrays: true,
    defaults: true,
  }) as unknown as Read
  return read.resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ scope, spans }) =>
      spans.map((span) => {
        const resourceAttributes = plain(resource.attributes, problems)
        return { ...collected(span, problems), resource: resourceAttributes, scope: scope.name }
      }),
    ),
  )
}

function collected(span: ReadSpan, problems: string[]) {
  const wants = (isMet: boolean, what: string): void => {
    if (!isMet) problems.push(`${span.name}: ${what}`)
  }
  const [start, end] = [BigInt(span.startTimeUnixNano), BigInt(span.endTimeUnixNano)]
  wants(span.traceId.length === 16 && span.traceId.some((byte) => byte !== 0), 'no trace id')
  wants(span.spanId.length === 8 && span.spanId.some((byte) => byte !== 0), 'no span id')
  wants([0, 8].includes(span.parentSpanId.length), 'a parent that is no span id')
  wants(span.name !== '', 'no name')
  wants(span.kind === 'SPAN_KIND_SERVER' || span.kind === 'SPAN_KIND_CLIENT', span.kind)
  wants(start <= end, 'ends before it starts')
  const nowMs = Date.now()
  wants(Math.abs(Number(end / 1_000_000n) - nowMs) < 60_000, 'not of this minute')
  return {
    name: span.name,
    kind: span.kind.replace('SPAN_KIND_', '').toLowerCase(),
    traceId: span.traceId.toString('hex'),
    spanId: span.spanId.toString('hex'),
    /** undefined: the trace begins with it. */
    parentId: span.parentSpanId.length === 0 ? undefined : span.parentSpanId.toString('hex'),
    traceState: span.traceState,
    flags: span.flags,
    startMs: Number(start) / 1e6,
    endMs: Number(end) / 1e6,
    attributes: plain(span.attributes, problems),
    status: span.status?.code.replace('STATUS_CODE_', '').toLowerCase() ?? 'unset',
    message: span.status?.message ?? '',
  }
}

function plain(attributes: readonly KeyValue[], problems: string[]): Attributes {
  const entries = attributes.map(({ key, value }): [string, Value] => {
    const [[kind, given] = ['nothing', '']] = Object.entries(value)
    if (kind === 'nothing') problems.push(`${key} has no value`)
    return [key, kind === 'intValue' ? Number(given) : given]
  })
  if (new Set(entries.map(([key]) => key)).size < entries.length) problems.push('a key twice')
  return Object.fromEntries(entries)
}
