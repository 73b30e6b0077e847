/** Connections to the backends: reuse, bounds, failover, and when a request is repeated. */
import { spawn } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { atEnd } from '../support/ending.ts'
import { ownMs } from '../support/own-time.ts'
import { answer, closeConnection, resetConnection } from '../support/raw-backend.ts'
import { startRawBackend, until, type Answer } from '../support/raw-backend.ts'
import { freePort } from '../support/redis-server.ts'
import type { Stage } from './forwarding.ts'

/** How long wrong answers may come, and how long they are looked for. */
const SHIFT_FOR_MS = 1_800
const LOOK_FOR_MS = 2_600

/** 16 callers share 4 connections to a backend that, once, answers twice. */
async function shiftedAnswers({ open }: Stage, answerMs: number) {
  let sentAtMs = Infinity
  let answers = 0
  const { front } = await open(
    ({ target }) => {
      const sound = [answerMs, answer(200, target)]
      if (sentAtMs < Infinity || ++answers < 8) return sound
      sentAtMs = ownMs()
      return [...sound, answerMs / 2, answer(200, 'nobody asked for it')]
    },
    { connections: 4 },
  )
  let asked = 0
  const wrongAtMs: number[] = []
  const call = async (caller: number): Promise<void> => {
    for (let nth = 0; ownMs() < sentAtMs + LOOK_FOR_MS; nth++) {
      const target = `/${caller}/${nth}`
      const outcome = front.send(target)
      await outcome.over
      asked++
      if (outcome.status === 200 && outcome.body !== target) wrongAtMs.push(ownMs())
    }
  }
  await Promise.all(Array.from({ length: 16 }, (_, caller) => call(caller)))
  const lastWrongMs = (wrongAtMs.at(-1) ?? sentAtMs) - sentAtMs
  const surpluses = front.forwarder.balancer.backends[0]?.surplus.connections ?? 0
  return { asked, wrong: wrongAtMs.length, lastWrongMs, surpluses }
}

export function describeConnections(stage: Stage): void {
  const { open, front: startFront } = stage

  describe('a connection', () => {
    it('is used again for request after request', async () => {
      const { backend, front } = await open(undefined, { connections: 1 })
      for (let count = 0; count < 5; count++) expect((await front.get('/')).body).toBe('ok')
      // What cannot be repeated is sent on a connection that has been idle for a moment.
      await sleep(50)
      await front.run('POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi')
      expect(backend.connections).toHaveLength(1)
      expect(backend.requests).toHaveLength(6)
      expect(backend.problems()).toEqual([])
    })

    it('is not used again after the backend has asked for its end', async () => {
      const { backend, front } = await open(() => answer(200, 'ok', 'Connection: close'))
      await front.get('/')
      expect((await front.get('/')).body).toBe('ok')
      expect(backend.connections).toHaveLength(2)
    })

    it('is one of no more than the configured number', async () => {
      let now = 0
      let most = 0
      const respond = async () => {
        most = Math.max(most, ++now)
        await sleep(30)
        now--
        return answer(200, 'ok')
      }
      const { front } = await open(respond, { connections: 2 })
      const outcomes = await Promise.all(Array.from({ length: 8 }, () => front.get('/')))
      expect(outcomes.map(({ body }) => body)).toEqual(outcomes.map(() => 'ok'))
      // One that a busy machine makes slow is closed, and another takes its place.
      expect(most).toBe(2)
    })

    it('is closed when it has been idle', async () => {
      const { backend, front } = await open(undefined, { timeouts: { idleMs: 200 } })
      await front.get('/')
      await until(() => backend.openConnections() === 0, 'the idle connection to close')
    })

    it('is closed behind the last answer that it may carry', async () => {
      const { backend, front } = await open(undefined, { connections: 1, connectionUses: 3 })
      for (let count = 0; count < 7; count++) expect((await front.get('/')).body).toBe('ok')
      expect(backend.requests.map(({ connection }) => connection)).toEqual([1, 1, 1, 2, 2, 2, 3])
      const busy = await Promise.all(Array.from({ length: 12 }, () => front.get('/')))
      expect(busy.map(({ body }) => body)).toEqual(busy.map(() => 'ok'))
      for (const { requests } of backend.connections) expect(requests.length).toBeLessThanOrEqual(3)
    })

    it('is closed when it has reached its age, but not in mid-answer', async () => {
      const { backend, front } = await open(
        ({ target }) => (target === '/slow' ? [700, answer(200, 'slow')] : answer(200)),
        { connections: 1, connectionAgeMs: 400 },
      )
      await front.get('/')
      expect((await front.get('/slow')).body).toBe('slow')
      await front.get('/')
      expect(backend.requests.map(({ connection }) => connection)).toEqual([1, 1, 2])
      expect(backend.problems()).toEqual([])
    })

    it('that carries an answer too many is found out within a second, though it is never idle', async () => {
      const rows = await Promise.all(
        [3, 30, 150].map((answerMs) => shiftedAnswers(stage, answerMs)),
      )
      for (const { asked, wrong, lastWrongMs } of rows) {
        expect(asked).toBeGreaterThan(2 * wrong)
        // A second, and the answers that were under way then.
        expect(lastWrongMs).toBeLessThan(SHIFT_FOR_MS)
      }
      // Where answers are slow, or the machine is, the connection may be closed before the answer that is owed comes.
      let [{ surpluses } = { surpluses: 0 }] = rows
      while (surpluses === 0) ({ surpluses } = await shiftedAnswers(stage, 3))
    }, 60_000)
  })

  describe('a request', () => {
    it.each([
      ['closed', closeConnection],
      ['reset', resetConnection],
    ] as const)(
      'that meets a reused connection being %s is repeated once, but no POST or PATCH',
      async (_, drop) => {
        // The second request on each connection meets its end, and so do the first two that cannot be repeated.
        const { backend, front } = await open(
          (__, { requests }) => (requests.length === 2 ? drop : answer(200, 'ok')),
          { connections: 1 },
        )
        await front.get('/first')
        // Each meets the connection that the one before has left.
        for (const method of ['GET', 'OPTIONS', 'DELETE', 'PUT'])
          expect((await front.get('/again', { method })).body).toBe('ok')
        for (const method of ['POST', 'PATCH']) {
          const length = ['Host', 'animals.example', 'Content-Length', '0']
          const outcome = await front.get('/once', { method, headers: length })
          expect(outcome.failure?.kind).toBe('broken')
          await front.get('/first')
        }
        expect(backend.requests.map(({ method, target }) => `${method} ${target}`)).toEqual([
          'GET /first',
          ...['GET', 'OPTIONS', 'DELETE', 'PUT'].flatMap((method) => [
            `${method} /again`,
            `${method} /again`,
          ]),
          'POST /once',
          'GET /first',
          'PATCH /once',
          'GET /first',
        ])
      },
    )

    const more = 'GET / HTTP/1.1\r\n\r\n'
    it.each<[string, nth: number, Answer, string, kind: string]>([
      ['dies fresh', 1, closeConnection, more, 'broken'],
      ['has brought a byte of the answer', 2, ['HTTP/1.1 2', 20, closeConnection], more, 'broken'],
      ['is silent', 2, undefined, more, 'response_timeout'],
      [
        'has some of its body',
        2,
        closeConnection,
        'PUT / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi',
        'broken',
      ],
    ])('is not repeated when its connection %s', async (_, nth, ...row) => {
      const [reply, bytes, kind] = row
      const { backend, front } = await open(
        (__, { requests }) => (requests.length === nth ? reply : answer(200, 'ok')),
        { connections: 1 },
      )
      if (nth === 2) await front.get('/first')
      const outcome = await front.run(bytes, { responseTimeoutMs: 300 })
      expect(outcome.failure?.kind).toBe(kind)
      expect(backend.requests).toHaveLength(nth)
    })
  })

  describe('backends', () => {
    it('that refuse connections fail the request as unreachable, and are used when they come back', async () => {
      const port = await freePort()
      const front = startFront([`http://127.0.0.1:${port}`])
      const outcome = await front.run('POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi')
      expect(outcome).toMatchObject({ calls: ['fail'], failure: { kind: 'unreachable' } })
      expect(outcome.calledEarly).toBe(false)
      await startRawBackend({ port })
      expect((await front.get('/')).body).toBe('ok')
    })

    it('that refuse connections are passed over, for a POST with a body too', async () => {
      const backend = await startRawBackend()
      const front = startFront([`http://127.0.0.1:${await freePort()}`, backend.url])
      for (let count = 0; count < 6; count++) {
        const outcome = await front.run(
          'POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n',
        )
        expect(outcome).toMatchObject({ status: 200, body: 'ok' })
      }
      expect(backend.requests.map(({ body }) => String(body))).toEqual(Array(6).fill('hi'))
    })

    it('that do not take connections fail the request as connect_timeout, or pass it to the next', async () => {
      const hole = await startBlackHole()
      const timeouts = { connectMs: 300 }
      const alone = startFront([hole], { timeouts })
      expect((await alone.get('/')).failure?.kind).toBe('connect_timeout')
      const backend = await startRawBackend()
      const front = startFront([hole, backend.url], { timeouts })
      expect((await front.get('/')).body).toBe('ok')
      expect((await front.get('/')).body).toBe('ok')
    })
  })

  it('closing closes the connections', async () => {
    const { backend, front } = await open()
    // A connection may have had its rest meanwhile.
    do await front.get('/')
    while (backend.openConnections() === 0)
    front.forwarder.engine.close()
    await until(() => backend.openConnections() === 0, 'the connection to close')
  })
}

/** A listening socket whose backlog is full: connection attempts are neither taken nor refused. */
async function startBlackHole(): Promise<string> {
  const script =
    "const s=require('node:net').createServer();s.listen({port:0,host:'127.0.0.1',backlog:1},()=>console.log(s.address().port))"
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'ignore'] })
  const port = await new Promise<number>((resolve) =>
    child.stdout.once('data', (text: Buffer) => resolve(Number(text))),
  )
  child.kill('SIGSTOP')
  const fill: Socket[] = []
  for (let full = false; !full;) {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    fill.push(socket)
    const connected = new Promise((resolve) => socket.once('connect', () => resolve(true)))
    full = !(await Promise.race([connected, sleep(500).then(() => false)]))
    if (fill.length > 50) throw new Error('the backlog does not fill up on this system')
  }
  atEnd(() => {
    for (const socket of fill) socket.destroy()
    child.kill('SIGKILL')
  })
  return `http://127.0.0.1:${port}`
}
