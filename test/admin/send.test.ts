/** Large answers of the admin listener, and those without an end: what a reader costs that is slow, stalls or leaves. */
import { once } from 'node:events'
import { createServer, get, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Answer, BodyStream } from '../../src/admin/answers.ts'
import { send } from '../../src/admin/send.ts'
import { wantsCsv } from '../../src/admin/usage/operations.ts'
import { csvLine } from '../../src/insight/format.js'
import { listening } from '../support/listening.ts'

/** A listener that answers with this, whatever is asked, and what became of the answers. */
async function serve(made: Answer, stalledMs?: number) {
  const ended: unknown[] = []
  const server = createServer((request, response) => {
    const onError = (error: unknown) => ended.push(error)
    const more = stalledMs === undefined ? {} : { stalledMs }
    void send(request, response, { made, onError, ...more }).then(() => ended.push('over'))
  })
  return { port: await listening(server), ended }
}

const streaming = (body: BodyStream): Answer => ({ status: 200, contentType: 'text/plain', body })

const ask = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

describe('a table', () => {
  it('has lines as RFC 4180 has them, and no cell of it is a formula', () => {
    expect(csvLine(['acme', 1])).toBe('acme,1')
    expect(csvLine(['a,"b"', -2])).toBe('"a,""b""",-2')
    expect(csvLine(['=1+1', 3])).toBe("'=1+1,3")
  })

  it('is given to who asks for it by name', () => {
    const wants = (accept?: string) => wantsCsv({ headers: { accept } } as never)
    expect(['text/csv', 'application/json, text/csv;q=0.5'].map(wants)).toEqual([true, true])
    expect([undefined, '*/*', 'text/csvx', 'application/json'].some(wants)).toBe(false)
  })
})

describe('a body that is made as it is read', () => {
  it('is made no further than its reader takes it, and who takes nothing is cut off', async () => {
    let pieces = 0
    let isReturned = false
    const endless: BodyStream = async function* () {
      try {
        for (;;) yield `${++pieces}${'x'.repeat(10_000)}`
      } finally {
        isReturned = true
      }
    }
    const { port, ended } = await serve(streaming(endless), 300)
    const reader = connect(port, '127.0.0.1', () => reader.write(ask)).pause()
    await expect.poll(() => isReturned, { timeout: 15_000 }).toBe(true)
    // What the kernel and one piece hold: not what a minute of making would come to.
    expect(pieces).toBeLessThan(2_000)
    expect(ended).toEqual(['over'])
  })

  it('may pause for longer than a reader may, and is told when its reader is gone', async () => {
    let isGone = false
    const { port, ended } = await serve(
      streaming(async function* (gone) {
        yield 'data: 1\n\n'
        await sleep(500)
        yield 'data: 2\n\n'
        await sleep(60_000, undefined, { signal: gone }).catch(() => (isGone = true))
      }),
      100,
    )
    const reader = connect(port, '127.0.0.1', () => reader.write(ask))
    let said = ''
    reader.on('data', (chunk: Buffer) => (said += chunk.toString()))
    await expect.poll(() => said, { timeout: 15_000 }).toContain('data: 2')
    reader.destroy()
    await expect.poll(() => ended, { timeout: 15_000 }).toEqual(['over'])
    expect(isGone).toBe(true)
  })

  it('that breaks off does not look as if it were all', async () => {
    const broken: BodyStream = async function* () {
      yield 'x'.repeat(20_000)
      throw new Error('the store is away')
    }
    const { port, ended } = await serve(streaming(broken))
    const [answer] = await once(get({ port, host: '127.0.0.1' }), 'response')
    await expect(text(answer as IncomingMessage)).rejects.toThrow('aborted')
    expect(ended.map(String)).toEqual(['Error: the store is away', 'over'])
  })
})
