/** Connections to the backends: reuse, bounds, failover, and when a request is repeated. */
import { spawn } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, closeConnection, resetConnection, until } from '../support/raw-backend.ts'
import { type RawBackend } from '../support/raw-backend.ts'
import { ownMs } from '../support/own-time.ts'
import { freePort } from '../support/redis-server.ts'
import type { Stage } from './forwarder.ts'
import { forwardNow } from './forwarding.ts'

/** How long wrong answers may come, and how long they are looked for. */
const SHIFT_FOR_MS = 1_800
const LOOK_FOR_MS = 2_600

/** 16 callers share 4 connections to a backend that, once, answers twice. */
async function shiftedAnswers(
  { backend: startBackend, front: startFront }: Stage,
  answerMs: number,
) {
  let sentAtMs = Infinity
  let answers = 0
  const backend = await startBackend({
    respond: ({ target }) => {
      const sound = [answerMs, answer(200, target)]
      if (sentAtMs < Infinity || ++answers < 8) return sound
      sentAtMs = ownMs()
      return [...sound, answerMs / 2, answer(200, 'nobody asked for it')]
    },
  })
  const surpluses: string[] = []
  const front = await startFront([backend], {
    connections: 4,
    onSurplus: ({ name }) => surpluses.push(name),
  })
  const { request } = await front.get('/')
  if (request === undefined) throw new Error('no request')
  let asked = 0
  const wrongAtMs: number[] = []
  const call = async (caller: number): Promise<void> => {
    for (let nth = 0; ownMs() < sentAtMs + LOOK_FOR_MS; nth++) {
      const target = `/${caller}/${nth}`
      const outcome = forwardNow(front.forwarder, { target, request })
      await outcome.over
      asked++
      if (outcome.status === 200 && outcome.body !== target) wrongAtMs.push(ownMs())
    }
  }
  await Promise.all(Array.from({ length: 16 }, (_, caller) => call(caller)))
  const lastWrongMs = (wrongAtMs.at(-1) ?? sentAtMs) - sentAtMs
  return { asked, wrong: wrongAtMs.length, lastWrongMs, surpluses: surpluses.length }
}

const targets = (backend: RawBackend): string[] => backend.requests.map(({ target }) => target)

export function describeConnections(stage: Stage): void {
  const { backend: startBackend, front: startFront } = stage
  /** Answers well, but drops the connection instead of answering the second request on it. */
  const startForgetful = (drop: typeof closeConnection | typeof resetConnection) =>
    startBackend({
      respond: (_, { requests }) => (requests.length === 2 ? drop : answer(200, 'ok')),
    })

  describe('a connection', () => {
    it('is used again for request after request', async () => {
      const backend = await startBackend()
      const front = await startFront([backend])
      for (let count = 0; count < 5; count++) expect((await front.get('/')).body).toBe('ok')
      // What cannot be repeated is sent on a connection that has been idle for a moment.
      await sleep(50)
      await front.run('POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi')
      expect(backend.connections).toHaveLength(1)
      expect(backend.requests).toHaveLength(6)
      expect(backend.problems()).toEqual([])
    })

    it('is not used again after the backend has asked for its end', async () => {
      const backend = await startBackend({ respond: () => answer(200, 'ok', 'Connection: close') })
      const front = await startFront([backend])
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
      const backend = await startBackend({ respond })
      const front = await startFront([backend], { connections: 2 })
      const outcomes = await Promise.all(Array.from({ length: 8 }, () => front.get('/')))
      expect(outcomes.map(({ body }) => body)).toEqual(outcomes.map(() => 'ok'))
      // One that a busy machine makes slow is closed, and another takes its place.
      expect(most).toBe(2)
    })

    it('is closed when it has been idle', async () => {
      const backend = await startBackend()
      const front = await startFront([backend], { timeouts: { idleMs: 200 } })
      await front.get('/')
      await until(() => backend.openConnections() === 0, 'the idle connection to close')
    })

    it('is closed behind the last answer that it may carry', async () => {
      const backend = await startBackend()
      const front = await startFront([backend], { connections: 1, connectionUses: 3 })
      for (let count = 0; count < 7; count++) expect((await front.get('/')).body).toBe('ok')
      expect(backend.requests.map(({ connection }) => connection)).toEqual([1, 1, 1, 2, 2, 2, 3])
      const busy = await Promise.all(Array.from({ length: 12 }, () => front.get('/')))
      expect(busy.map(({ body }) => body)).toEqual(busy.map(() => 'ok'))
      for (const { requests } of backend.connections) expect(requests.length).toBeLessThanOrEqual(3)
    })

    it('is closed when it has reached its age, but not in mid-answer', async () => {
      const backend = await startBackend({
        respond: ({ target }) => (target === '/slow' ? [700, answer(200, 'slow')] : answer(200)),
      })
      const front = await startFront([backend], { connections: 1, connectionAgeMs: 400 })
      await front.get('/')
      expect((await front.get('/slow')).body).toBe('slow')
      // The engines that look only when the connection is used again let it carry one answer more.
      await front.get('/')
      await front.get('/')
      expect(backend.requests.slice(0, 2).map(({ connection }) => connection)).toEqual([1, 1])
      expect(backend.requests.at(-1)?.connection).toBe(2)
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
      // Where answers are slow the connection may be closed before the answer that is owed comes.
      expect(rows[0]?.surpluses).toBeGreaterThan(0)
    }, 60_000)

    it('that nobody frees in time fails the request that waits for it as connect_timeout', async () => {
      const backend = await startBackend({
        respond: ({ target }) => (target === '/held' ? undefined : answer(200, 'ok')),
      })
      const front = await startFront([backend], { connections: 1 })
      const { outcome: held } = await front.start('GET /held HTTP/1.1\r\n\r\n')
      await until(() => backend.requests.length === 1, 'the request that holds the connection')
      const late = await front.get('/late', { responseTimeoutMs: 200 })
      expect(late.calls).toEqual(['fail'])
      expect(late.failure?.kind).toBe('connect_timeout')
      held.handle?.abort()
      expect((await front.get('/next')).body).toBe('ok')
      expect(targets(backend)).toEqual(['/held', '/next'])
    })

    it('that is waited for is not taken by a request that was aborted', async () => {
      const backend = await startBackend({
        respond: ({ target }) => (target === '/held' ? undefined : answer(200, 'ok')),
      })
      const front = await startFront([backend], { connections: 1 })
      const { outcome: held } = await front.start('GET /held HTTP/1.1\r\n\r\n')
      await until(() => backend.requests.length === 1, 'the request that holds the connection')
      const { outcome: waiting } = await front.start('GET /never HTTP/1.1\r\n\r\n')
      waiting.handle?.abort()
      held.handle?.abort()
      expect((await front.get('/next')).body).toBe('ok')
      expect(targets(backend)).toEqual(['/held', '/next'])
      expect(waiting.calls).toEqual([])
    })
  })

  describe('a request', () => {
    const dropping = [
      ['closed', closeConnection],
      ['reset', resetConnection],
    ] as const

    it.each(dropping)(
      'that meets a reused connection being %s is repeated once when idempotent',
      async (_, drop) => {
        const backend = await startForgetful(drop)
        const front = await startFront([backend], { connections: 1 })
        await front.get('/first')
        for (const method of ['GET', 'OPTIONS', 'DELETE', 'PUT']) {
          await front.run(`${method} /again HTTP/1.1\r\n\r\n`)
        }
        const again = backend.requests.filter(({ target }) => target === '/again')
        // Each of the four meets the connection that the one before has left, and succeeds on a fresh one.
        expect(again.map(({ method }) => method)).toEqual(
          ['GET', 'OPTIONS', 'DELETE', 'PUT'].flatMap((method) => [method, method]),
        )
      },
    )

    it.each(dropping)(
      'that meets a reused connection being %s is never repeated when it is a POST or PATCH',
      async (_, drop) => {
        const backend = await startForgetful(drop)
        const front = await startFront([backend], { connections: 1 })
        for (const method of ['POST', 'PATCH']) {
          await front.get('/first')
          const outcome = await front.run(
            `${method} /${method} HTTP/1.1\r\nContent-Length: 0\r\n\r\n`,
          )
          expect(outcome.failure?.kind).toBe('broken')
        }
        expect(targets(backend)).toEqual(['/first', '/POST', '/first', '/PATCH'])
      },
    )

    it('whose body was begun is not repeated, even when idempotent', async () => {
      const backend = await startForgetful(closeConnection)
      const front = await startFront([backend], { connections: 1 })
      await front.get('/first')
      const outcome = await front.run('PUT /put HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi')
      expect(outcome.failure?.kind).toBe('broken')
      expect(targets(backend)).toEqual(['/first', '/put'])
    })

    it('is not repeated when a fresh connection dies', async () => {
      const backend = await startBackend({ respond: () => closeConnection })
      const front = await startFront([backend])
      const outcome = await front.get('/')
      expect(outcome.failure?.kind).toBe('broken')
      expect(backend.requests).toHaveLength(1)
    })

    it('is not repeated once a byte of the answer has come', async () => {
      const backend = await startBackend({
        respond: (_, { requests }) =>
          requests.length === 2 ? ['HTTP/1.1 2', 20, closeConnection] : answer(200, 'ok'),
      })
      const front = await startFront([backend])
      await front.get('/')
      const outcome = await front.get('/half')
      expect(outcome.failure?.kind).toBe('broken')
      expect(targets(backend)).toEqual(['/', '/half'])
    })

    it('is not repeated when a reused connection is silent', async () => {
      const backend = await startBackend({
        respond: (_, { requests }) => (requests.length === 2 ? undefined : answer(200, 'ok')),
      })
      const front = await startFront([backend])
      await front.get('/')
      const outcome = await front.get('/silent', { responseTimeoutMs: 300 })
      expect(outcome.failure?.kind).toBe('response_timeout')
      expect(targets(backend)).toEqual(['/', '/silent'])
    })
  })

  describe('backends', () => {
    it('are taken in turn', async () => {
      const one = await startBackend()
      const two = await startBackend()
      const front = await startFront([one, two])
      for (let count = 0; count < 6; count++) await front.get('/')
      expect([one.requests.length, two.requests.length]).toEqual([3, 3])
    })

    it('that refuse connections fail the request as unreachable', async () => {
      const front = await startFront([`http://127.0.0.1:${await freePort()}`])
      const outcome = await front.run('POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi')
      expect(outcome.calls).toEqual(['fail'])
      expect(outcome.failure?.kind).toBe('unreachable')
      expect(outcome.calledEarly).toBe(false)
    })

    it('that refuse connections are passed over, for a POST with a body too', async () => {
      const backend = await startBackend()
      const front = await startFront([`http://127.0.0.1:${await freePort()}`, backend])
      for (let count = 0; count < 6; count++) {
        const outcome = await front.run(
          'POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n',
        )
        expect(outcome).toMatchObject({ status: 200, body: 'ok' })
      }
      expect(backend.requests.map(({ body }) => String(body))).toEqual(
        Array.from({ length: 6 }, () => 'hi'),
      )
    })

    it('that come back are used again', async () => {
      const port = await freePort()
      const front = await startFront([`http://127.0.0.1:${port}`])
      expect((await front.get('/')).failure?.kind).toBe('unreachable')
      await startBackend({ port })
      expect((await front.get('/')).body).toBe('ok')
    })

    it('that do not take connections fail the request as connect_timeout, or pass it to the next', async () => {
      const hole = await startBlackHole()
      try {
        const alone = await startFront([hole.url], { timeouts: { connectMs: 300 } })
        expect((await alone.get('/')).failure?.kind).toBe('connect_timeout')
        const backend = await startBackend()
        const front = await startFront([hole.url, backend], { timeouts: { connectMs: 300 } })
        expect((await front.get('/')).body).toBe('ok')
        expect((await front.get('/')).body).toBe('ok')
      } finally {
        hole.stop()
      }
    })
  })

  describe('closing', () => {
    it('lets the request under way finish', async () => {
      const backend = await startBackend({ respond: () => [200, answer(200, 'ok')] })
      const front = await startFront([backend])
      const { outcome } = await front.start('GET / HTTP/1.1\r\n\r\n')
      await until(() => backend.requests.length === 1, 'the request')
      await front.forwarder.close()
      expect(outcome.calls).toEqual(['head', 'data', 'end'])
      await until(() => backend.openConnections() === 0, 'the connection to close')
    })

    it('does not wait for what was aborted', async () => {
      const backend = await startBackend({ respond: () => undefined })
      const front = await startFront([backend])
      const { outcome } = await front.start('GET / HTTP/1.1\r\n\r\n')
      await until(() => backend.requests.length === 1, 'the request')
      outcome.handle?.abort()
      await front.forwarder.close()
      expect(outcome.calls).toEqual([])
    })
  })
}

/** A listening socket whose backlog is full: connection attempts are neither taken nor refused. */
async function startBlackHole(): Promise<{ url: string; stop(): void }> {
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
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () => {
      for (const socket of fill) socket.destroy()
      child.kill('SIGKILL')
    },
  }
}
