/** The load generator's own process, which also reads the CPU of the measured processes at the window's edges. */
import autocannon from 'autocannon'
import { measuredWindow } from './measured-window.ts'
import { steadyLoad } from './steady-load.ts'

export interface LoadOrder {
  readonly url: string
  readonly connections: number
  /** Bearer tokens. */
  readonly keys: readonly string[]
  /** rotate: each connection walks through all keys, starting at its own. own: each has an equal share to itself. */
  readonly distribution: 'rotate' | 'own'
  readonly expect: Expectation
  /** amount: so many requests and no measurement. */
  readonly length: { readonly amount: number } | MeasuredLength
  /** Processes whose CPU time is read. */
  readonly pids: readonly number[]
  /** Evenly spaced, over all connections; without it, as fast as answers come. Needs a length in seconds. */
  readonly requestsPerSecond?: number
}

export interface MeasuredLength {
  readonly warmUpSeconds: number
  readonly measuredSeconds: number
}

export interface Expectation {
  readonly status: number
  /** What every body must contain; the whole body where `exact`. */
  readonly body: string
  readonly exact: boolean
}

export interface LoadOutcome {
  /** Answers within the window. */
  readonly requests: number
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Used within the window, in the order of `pids`. */
  readonly cpuMicroseconds: readonly number[]
  /** What was not as expected, from the first request of the warm-up on; empty for a valid run. */
  readonly faults: readonly string[]
}

process.once('message', (order: LoadOrder) => {
  void generate(order).then((outcome) => process.send?.(outcome, () => process.disconnect?.()))
})
process.once('disconnect', () => process.exit(0))

function generate(order: LoadOrder): Promise<LoadOutcome> {
  const { requestsPerSecond, length } = order
  if (requestsPerSecond === undefined) return saturate(order)
  if ('amount' in length) throw new Error('a steady load needs a length in seconds')
  return steadyLoad({ ...order, requestsPerSecond, length })
}

/** autocannon: each connection sends its next request as soon as it has the answer to the last. */
async function saturate(order: LoadOrder): Promise<LoadOutcome> {
  const { length, expect } = order
  const statuses = new Map<number, number>()
  let closes = 0
  const window = measuredWindow(order.pids)
  const finished = Promise.withResolvers<autocannon.Result>()
  const instance = autocannon(
    {
      url: order.url,
      connections: order.connections,
      ...('amount' in length
        ? { amount: length.amount }
        : { duration: length.warmUpSeconds + length.measuredSeconds + 10 }),
      sampleInt: 100,
      setupClient: keyedClients(order, () => closes++),
      verifyBody: (body) =>
        expect.exact ? body === expect.body : String(body).includes(expect.body),
    },
    (error: unknown, result) => (error ? finished.reject(error) : finished.resolve(result)),
  )
  instance.on('response', (_client, status, _bytes, latencyMs) => {
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    window.answer(latencyMs)
  })
  if ('warmUpSeconds' in length) {
    setTimeout(window.open, length.warmUpSeconds * 1000)
    setTimeout(
      () => {
        window.close()
        instance.stop()
      },
      (length.warmUpSeconds + length.measuredSeconds) * 1000,
    )
  }
  const result = await finished.promise
  return { ...window.figures(), faults: faultsOf(order, { result, statuses, closes }) }
}

/** onClose: an answer has announced that it is the last of its connection. */
function keyedClients({ url, connections, keys, distribution }: LoadOrder, onClose: () => void) {
  const path = new URL(url).pathname + new URL(url).search
  const requests = keys.map((key) => ({ path, headers: { authorization: `Bearer ${key}` } }))
  let nth = 0
  return (client: autocannon.Client): void => {
    client.on('headers', ({ headers }) => {
      if (Object.values(headers ?? {}).some((value) => value === 'close')) onClose()
    })
    const start = Math.floor((nth++ * requests.length) / connections)
    const share = Math.floor(requests.length / connections)
    client.setRequests(
      distribution === 'own'
        ? requests.slice(start, start + share)
        : [...requests.slice(start), ...requests.slice(0, start)],
    )
  }
}

function faultsOf(
  { connections, expect }: LoadOrder,
  {
    result,
    statuses,
    closes,
  }: { result: autocannon.Result; statuses: ReadonlyMap<number, number>; closes: number },
): string[] {
  const answered = [...statuses.values()].reduce((sum, count) => sum + count, 0)
  const unexpected = [...statuses].filter(([status]) => status !== expect.status)
  // autocannon opens a closed connection again in silence; its request stays without an answer. That is nobody's fault where
  // the answer before it has said `Connection: close`: autocannon does not wait for the end that follows (RFC 9112 9.6).
  const lost = result.requests.sent - answered - connections - closes
  return [
    ...unexpected.map(([status, count]) => `${count} answers with status ${status}`),
    ...(answered === 0 ? ['no answers'] : []),
    ...(result.errors > 0 ? [`${result.errors} connection errors or time-outs`] : []),
    ...(result.mismatches > 0 ? [`${result.mismatches} wrong bodies`] : []),
    ...(lost > 0 ? [`${lost} requests lost by a closed connection`] : []),
  ]
}
