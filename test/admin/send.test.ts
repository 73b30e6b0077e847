/** Large answers of the admin listener, and those without an end: what a reader costs that is slow, stalls or leaves. */
import { once } from 'node:events'
import { createServer, get } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { csv, wantsCsv, type Answer, type CsvRow } from '../../src/admin/answers.ts'
import { send } from '../../src/admin/send.ts'
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

const ask = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

describe('a table', () => {
  it('comes as RFC 4180 has it, and no cell of it is a formula', async () => {
    const rows: CsvRow[] = [
      ['acme', 1],
      ['a,"b"', -2],
      ['=1+1', 3],
    ]
    const { port } = await serve(csv(['client', 'admitted'], rows))
    const answer = await fetch(`http://127.0.0.1:${port}`)
    expect(answer.headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present')
    expect(await answer.text()).toBe(`client,admitted\r\nacme,1\r\n"a,""b""",-2\r\n'=1+1,3\r\n`)
  })

  it('is given to who asks for it by name', () => {
    const wants = (accept?: string) => wantsCsv({ headers: { accept } } as never)
    expect(['text/csv', 'application/json, text/csv;q=0.5'].map(wants)).toEqual([true, true])
    expect([undefined, '*/*', 'text/csvx', 'application/json'].map(wants)).toEqual(
      Array(4).fill(false),
    )
  })
})

describe('a body that is made as it is read', () => {
  it('is made no further than its reader takes it, and who takes nothing is cut off', async () => {
    let rows = 0
    let isReturned = false
    const endless = function* (): Generator<CsvRow> {
      try {
        for (;;) yield [`client-${++rows}`, 'x'.repeat(1_000)]
      } finally {
        isReturned = true
      }
    }
    const { port, ended } = await serve(csv(['client', 'filler'], endless()), 300)
    const reader = connect(port, '127.0.0.1', () => reader.write(ask)).pause()
    await expect.poll(() => isReturned, { timeout: 15_000 }).toBe(true)
    // What the kernel and one piece hold: not what a minute of making would come to.
    expect(rows).toBeLessThan(20_000)
    expect(ended).toEqual(['over'])
  })

  it('may pause for longer than a reader may, and is told when its reader is gone', async () => {
    let isGone = false
    const { port, ended } = await serve(
      {
        status: 200,
        contentType: 'text/event-stream',
        body: async function* (gone) {
          yield 'data: 1\n\n'
          await sleep(500)
          yield 'data: 2\n\n'
          await sleep(60_000, undefined, { signal: gone }).catch(() => (isGone = true))
        },
      },
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
    const broken = function* (): Generator<CsvRow> {
      yield ['x'.repeat(20_000)]
      throw new Error('the store is away')
    }
    const { port, ended } = await serve(csv(['client'], broken()))
    const [answer] = (await once(get({ port, host: '127.0.0.1' }), 'response')) as [
      AsyncIterable<Buffer>,
    ]
    await expect(text(answer)).rejects.toThrow('aborted')
    expect(ended.map(String)).toEqual(['Error: the store is away', 'over'])
  })
})
