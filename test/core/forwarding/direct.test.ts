/** What the contract of the engines leaves to this one: its connections from turn to turn of the event loop. */
import type { Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { DirectAttempt } from '../../../src/core/forwarding/direct.ts'
import { Outcome, stageOf, type Front } from '../../contract/forwarding.ts'
import { answer, closeConnection, resetConnection, until } from '../../support/raw-backend.ts'
import type { Answer, BackendConnection, RecordedRequest } from '../../support/raw-backend.ts'

const { open } = stageOf(DirectAttempt)
const POST = { method: 'POST' }
const echo = ({ target }: RecordedRequest) => answer(200, target)

it('a great answer is read in many turns of the event loop, so that others have theirs', async () => {
  const body = 'x'.repeat(4_000_000)
  const { front } = await open(() => answer(200, body))
  const perTurn: number[] = [0]
  const outcome = new (class extends Outcome {
    override data(chunk: Buffer): boolean {
      perTurn.push((perTurn.pop() ?? 0) + chunk.length)
      return super.data(chunk)
    }
  })()
  const count = (): void => {
    perTurn.push(0)
    if (!outcome.settled) setImmediate(count)
  }
  setImmediate(count)
  await front.send('/', {}, outcome).over
  expect(outcome.bodyBytes).toBe(body.length)
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(128 * 1024)
})

describe('an idle connection', () => {
  it.each<[string, (socket: Socket) => unknown]>([
    ['is just closing', (socket) => socket.end()],
    ['is just saying something on', (socket) => socket.write(answer(200, 'evil'))],
  ])('that the backend %s is not used, for a POST neither', async (_, act) => {
    const { backend, front } = await open(echo, { connections: 1 })
    for (let round = 0; round < 20; round++) {
      await front.get('/first')
      const socket = backend.connections.at(-1)?.socket
      if (socket) act(socket)
      expect(await front.get('/second', POST)).toMatchObject({ status: 200, body: '/second' })
    }
    expect(backend.requests).toHaveLength(40)
  })

  it.each([
    ['for no longer than the backend says, with a second to spare', 'timeout=2', 900],
    ['not at all where the backend says a second', 'timeout=1, max=100', 0],
  ])('is kept %s', async (_, hint, leastMs) => {
    const { backend, front } = await open(() => answer(200, 'ok', `Keep-Alive: ${hint}`))
    const sinceMs = performance.now()
    await front.get('/')
    await until(() => backend.openConnections() === 0, 'the idle connection to close')
    const keptMs = performance.now() - sinceMs
    expect(keptMs).toBeGreaterThanOrEqual(leastMs)
    // Without the hint it would be ten seconds.
    expect(keptMs).toBeLessThan(9_000)
  })

  it('is read again after its client has paused the end of an answer', async () => {
    const { backend, front } = await open(undefined, { connections: 1 })
    for (let round = 0; round < 3; round++) {
      const outcome = front.send('/')
      outcome.accepts = false
      await outcome.over
      expect(outcome.calls).toEqual(['head', 'data', 'end'])
      outcome.handle?.resume()
    }
    expect(backend.connections).toHaveLength(1)
    backend.connections[0]?.socket.end()
    await until(() => backend.openConnections() === 0, 'the end to be noticed')
  })
})

/** Sends each request from within the end of the answer before, so that nothing else has its turn in between. */
async function chain(front: Front, method: string, count: number): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const next = (): void => {
    if (outcomes.length === count) return
    const outcome = new (class extends Outcome {
      override end(): void {
        super.end()
        next()
      }
    })()
    outcomes.push(outcome)
    front.send(`/${outcomes.length}`, { method }, outcome)
  }
  next()
  await until(() => outcomes.at(-1)?.settled === true, 'the last answer')
  return outcomes
}

describe('a connection whose answer has just come', () => {
  const later =
    (act: (socket: Socket) => void) =>
    (request: RecordedRequest, { socket }: BackendConnection) => {
      // In the turn in which the gateway reads the answer, which is the next.
      setImmediate(() => setImmediate(() => act(socket)))
      return echo(request)
    }
  type Hostile = (request: RecordedRequest, connection: BackendConnection) => Answer
  const hostile: [string, Hostile][] = [
    ['closes it at once', (request) => [echo(request), closeConnection]],
    ['resets it at once', (request) => [echo(request), resetConnection]],
    ['closes it a little later', later((socket) => socket.end())],
    ['sends another answer a little later', later((socket) => socket.write(answer(200, 'evil')))],
    ['sends half an answer a little later', later((socket) => socket.write('HTTP/1.1 2'))],
  ]

  it.each(
    hostile.flatMap(([what, respond]) =>
      [1, 8].map((connections) => [what, connections, respond] as const),
    ),
  )(
    'and whose backend %s, out of %i at most, does no harm to the POST that follows at once',
    async (_, connections, respond) => {
      const { backend, front } = await open(respond, { connections })
      const outcomes = await chain(front, 'POST', 100)
      expect(outcomes.map(({ body }) => body)).toEqual(backend.requests.map((r) => r.target))
      expect(backend.connections).toHaveLength(100)
    },
  )

  it('and whose backend closes it does no harm to those that wait for it', async () => {
    const { backend, front } = await open((request) => [echo(request), closeConnection], {
      connections: 2,
    })
    const targets = Array.from({ length: 50 }, (_, at) => `/${at}`)
    const outcomes = await Promise.all(targets.map((target) => front.get(target, POST)))
    expect(outcomes.map(({ body }) => body)).toEqual(targets)
    expect(backend.requests).toHaveLength(50)
  })

  it('is met closed by few GETs, though its backend closes each one a moment after its answer', async () => {
    const { backend, front } = await open((request) => [echo(request), 3, closeConnection])
    const outcomes = await chain(front, 'GET', 20)
    expect(outcomes.map(({ body }) => body)).toEqual(outcomes.map((_, at) => `/${at + 1}`))
    // Each that was met closed was sent twice; on a busy machine more of them are.
    expect(backend.requests.length).toBeLessThan(35)
    expect(backend.requests.length).toBeGreaterThan(20)
  })

  it('is waited for by a GET, while a POST has another made where there may be one', async () => {
    const gets = async (): ReturnType<typeof open> => {
      const opened = await open(undefined, { connections: 5 })
      const sinceMs = performance.now()
      await chain(opened.front, 'GET', 20)
      // A connection rests twice a second, for longer than a GET waits: a machine that was busy for so long shows nothing.
      return performance.now() - sinceMs < 400 ? opened : gets()
    }
    const { backend, front } = await gets()
    expect(backend.connections).toHaveLength(1)
    const outcomes = await chain(front, 'POST', 20)
    expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => 200))
    expect(backend.connections.length).toBeGreaterThan(1)
    expect(backend.connections.length).toBeLessThanOrEqual(5)
  })
})

describe('a connection', () => {
  it('that ends makes room for the request that waits', async () => {
    const { backend, front } = await open(
      (request) => (request.target === '/held' ? undefined : echo(request)),
      { connections: 1 },
    )
    const held = front.send('/held')
    const waiting = ['/1', '/2'].map((target) => front.get(target, POST))
    await until(() => backend.requests.length === 1, 'the request that holds the connection')
    held.handle?.abort()
    expect((await Promise.all(waiting)).map(({ body }) => body)).toEqual(['/1', '/2'])
  })

  it('that was being made for a request that is gone carries the next', async () => {
    const { backend, front } = await open(undefined, { connections: 1 })
    const gone = front.send('/gone')
    const next = front.get('/next')
    expect(gone.handle?.abort()).toBe(false)
    await next
    expect(backend.requests.map(({ target }) => target)).toEqual(['/next'])
    expect(backend.connections).toHaveLength(1)
    expect(gone.calls).toEqual([])
  })
})

it.each([
  ['longer', '3'],
  ['shorter', '9'],
])('a body that is %s than its Content-Length says never makes a request', async (_, length) => {
  const { backend, front } = await open()
  const outcome = await front.run('POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello', {
    headers: ['Host', 'animals.example', 'Content-Length', length],
  })
  expect(outcome.failure?.kind).toBe('broken')
  await until(() => backend.openConnections() === 0, 'the connection to close')
  expect(backend.requests).toEqual([])
})
